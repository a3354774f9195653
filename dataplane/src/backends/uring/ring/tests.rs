//! Completions that are taken from a full ring.

use std::os::fd::AsRawFd;

use super::*;

fn sizes(rx_buffers: usize) -> RingSizes {
    RingSizes { rx_buffers, heads: 1, tx_buffers: 1 }
}

/// More submissions than the queues hold, of which each completes at once: neither a hang nor a lost completion.
#[test]
fn submissions_beyond_the_queues_lose_no_completion() {
    const PUSHED: usize = 10_000;
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let opened = Ring::open(sizes(4), &[socket.as_raw_fd()], socket.as_raw_fd());
    let mut ring = match opened {
        Ok(ring) => ring,
        Err((step, error)) => {
            return crate::requirements::skip("io_uring", &format_args!("{step}: {error}"));
        }
    };
    for _ in 0..PUSHED {
        ring.watch_writable(0).unwrap();
    }
    let mut completed = 0;
    while completed < PUSHED {
        ring.enter(0, None).unwrap();
        while let Some(completion) = ring.completion() {
            assert_eq!(completion.token, Token::Writable(0));
            completed += 1;
        }
    }
    assert_eq!(ring.in_flight, 0);
}

/// Datagrams that arrive while the queues are full are kept in order, as many as there are buffers.
#[test]
fn completions_are_kept_in_order_and_no_more_than_there_are_buffers() {
    const BUFFERS: usize = 8;
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let opened = Ring::open(sizes(BUFFERS), &[socket.as_raw_fd()], socket.as_raw_fd());
    let mut ring = match opened {
        Ok(ring) => ring,
        Err((step, error)) => {
            return crate::requirements::skip("io_uring", &format_args!("{step}: {error}"));
        }
    };
    ring.receive(0).unwrap();
    ring.flush().unwrap();
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for size in 1..=2 * BUFFERS {
        let to = socket.local_addr().unwrap();
        client.send_to(&[7; 100][..size], to).unwrap();
    }
    // Far more submissions than fit, so that completions must be taken meanwhile.
    for _ in 0..1000 {
        ring.watch_writable(0).unwrap();
    }
    assert!(!ring.stash.is_empty());
    let of_socket = |completion: &&Completion| completion.token == Token::Receive(0);
    let received: Vec<_> = ring.stash.iter().filter(of_socket).copied().collect();
    let (last, filled) = received.split_last().unwrap();
    assert_eq!(filled.len(), BUFFERS);
    assert!(filled.is_sorted_by_key(|completion| completion.result.unwrap()));
    assert_eq!((last.result, last.more), (Err(libc::ENOBUFS), false));
}
