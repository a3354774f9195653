use std::future::{Future, poll_fn};
use std::task::Waker;

use h2::{Reason, RecvStream, client, server};
use http::{Request, Response};
use tokio::io::{AsyncReadExt as _, duplex, split};
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::*;
use crate::tcp::send_buffer::{LEAST, SendBuffer};

/// Bytes that the streams of a connection may hold.
const LIMIT: usize = 16 * 1024;
/// Window of each stream of the client, bytes.
const WINDOW: u32 = 1000;

/// A stream of HTTP/2 that has become a tunnel.
struct Tunnel {
    outlet: Outlet,
    /// Client's sides of the stream.
    client: (SendStream<Bytes>, RecvStream),
}

/// Waits for room.
async fn room(outlet: &mut Outlet) -> io::Result<usize> {
    poll_fn(|cx| outlet.poll_room(cx)).await
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    LocalSet::new().block_on(&runtime.unwrap(), test)
}

/// Opens tunnels on a connection, and returns them with what the connection holds.
async fn tunnels(count: usize) -> (Vec<Tunnel>, Arc<SendBuffer>) {
    let (near, far) = duplex(LIMIT);
    let mut builder = client::Builder::new();
    let builder = builder.initial_window_size(WINDOW);
    let opened = builder.handshake::<_, Bytes>(near);
    let (opened, accepted) = tokio::join!(opened, server::handshake(far));
    let ((mut requests, driver), mut accepted) = (opened.unwrap(), accepted.unwrap());
    spawn_local(driver);
    let connection = SendBuffer::new(LIMIT);
    let mut tunnels = Vec::new();
    for _ in 0..count {
        let request = Request::get("https://localhost/").body(()).unwrap();
        let (response, sent) = requests.send_request(request, false).unwrap();
        let (_, mut reply) = accepted.accept().await.unwrap().unwrap();
        let stream = reply.send_response(Response::new(()), false).unwrap();
        tunnels.push((stream, response, sent));
    }
    spawn_local(async move { while accepted.accept().await.is_some() {} });
    let mut open = Vec::new();
    for (stream, response, sent) in tunnels {
        open.push(Tunnel {
            outlet: Outlet::Stream(stream, connection.stream()),
            client: (sent, response.await.unwrap().into_body()),
        });
    }
    (open, connection)
}

#[test]
fn block_is_sent_and_released_as_the_client_takes_it() {
    run(async {
        let (mut tunnels, connection) = tunnels(1).await;
        let Tunnel { outlet, client } = &mut tunnels[0];
        let length = room(outlet).await.unwrap();
        assert_eq!(length, LIMIT);
        let taken = async {
            let (_, received) = client;
            let mut left = length;
            while left > 0 {
                if left > usize::try_from(WINDOW).unwrap() {
                    assert_eq!(connection.held(), length as u64);
                }
                let block = received.data().await.unwrap().unwrap();
                left -= block.len();
                let flow_control = received.flow_control();
                flow_control.release_capacity(block.len()).unwrap();
            }
        };
        let (written, ()) = tokio::join!(outlet.write(vec![7; length].into()), taken);
        assert!(written.is_ok());
        assert_eq!(connection.held(), 0);
    });
}

#[test]
fn tunnels_whose_client_takes_nothing_hold_little_more_than_the_limit() {
    run(async {
        let (mut tunnels, connection) = tunnels(64).await;
        let mut writes = Vec::new();
        for Tunnel { outlet, .. } in &mut tunnels {
            let mut write = Box::pin(async move {
                loop {
                    let block = vec![7; room(outlet).await.unwrap()];
                    outlet.write(block.into()).await.unwrap();
                }
            });
            let mut cx = Context::from_waker(Waker::noop());
            let _: Poll<()> = write.as_mut().poll(&mut cx);
            writes.push(write);
        }
        let most = LIMIT + writes.len() * LEAST;
        assert!(connection.held() > LIMIT as u64 && connection.held() <= most as u64);
        drop(writes);
        drop(tunnels);
        while connection.held() > 0 {
            yield_now().await;
        }
    });
}

#[test]
fn reset_ends_every_wait_of_a_tunnel() {
    run(async {
        let (mut tunnels, connection) = tunnels(1).await;
        let Tunnel { outlet, client } = &mut tunnels[0];
        let reset = async {
            yield_now().await;
            client.0.send_reset(Reason::CANCEL);
        };
        let (written, ()) = tokio::join!(outlet.write(vec![7; LIMIT].into()), reset);
        assert!(written.is_err());
        assert!(room(outlet).await.is_err());
        assert_eq!(connection.held(), 0);
    });
}

#[test]
fn tunnel_over_http1_waits_for_its_connection_alone() {
    run(async {
        let (near, mut far) = duplex(LIMIT);
        let (_read, write) = split(Box::new(near) as Box<dyn Duplex>);
        let mut outlet = Outlet::Connection(write);
        assert_eq!(room(&mut outlet).await.unwrap(), usize::MAX);
        outlet.write(Bytes::from_static(b"bytes")).await.unwrap();
        outlet.end().await;
        let mut received = Vec::new();
        far.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, b"bytes");
    });
}
