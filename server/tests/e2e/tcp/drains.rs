//! Clients that send while they read the last response of a connection, as the server drains.

use std::net::{SocketAddr, TcpStream};

use tokio::net::TcpSocket;

use super::frames::{ACK, DATA, PING, SETTINGS, begin, frame, get, read_frame, window_update};
use super::raw::Raw;
use super::server;
use crate::client::run;
use crate::server::Folder;

/// Bytes of a response, which the system of the server takes at once.
const LENGTH: usize = 1_000_000;
/// Bytes that the system of the client takes before the client reads them.
const CLIENT_ROOM: u32 = 4096;

/// Connects a client whose system takes little.
fn connect(server: SocketAddr) -> TcpStream {
    let stream = run(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(CLIENT_ROOM).unwrap();
        socket.connect(server).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}

#[test]
fn a_client_of_http2_that_opens_its_windows_in_a_drain_gets_all_of_its_response() {
    let folder = Folder::new();
    let mut server = server(&folder, "");
    let raw = Raw::over(connect(server.address()), b"\x02h2");
    // SETTINGS_INITIAL_WINDOW_SIZE
    let mut client = begin(raw, &[0, 4, 0, 0x10, 0, 0]);
    client.send(&window_update(0, 1 << 20));
    client.send(&get(1, &format!("/bytes/{LENGTH}")));
    let mut received = 0;
    while let Some(sent) = read_frame(&mut client) {
        let reply = match sent.kind {
            DATA if !sent.payload.is_empty() => {
                if received == 0 {
                    server.process.terminate();
                    server.process.line_with(&["draining"]);
                }
                received += sent.payload.len();
                window_update(0, u32::try_from(sent.payload.len()).unwrap())
            }
            PING if sent.flags & ACK == 0 => frame(PING, ACK, 0, &sent.payload),
            SETTINGS if sent.flags & ACK == 0 => frame(SETTINGS, ACK, 0, &[]),
            _ => continue,
        };
        // The server may have closed its side.
        let _ = client.try_send(&reply);
    }
    assert_eq!(received, LENGTH);
    drop(client);
    assert_eq!(server.process.wait().code(), Some(0));
}

#[test]
fn a_client_of_http1_that_sends_requests_in_a_drain_gets_all_of_its_response() {
    let folder = Folder::new();
    let mut server = server(&folder, "");
    let mut client = Raw::over(connect(server.address()), b"");
    client.send(format!("GET /bytes/{LENGTH} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    client.read_past(b"\r\n\r\n");
    server.process.terminate();
    server.process.line_with(&["draining"]);
    let mut block = [0; 4000];
    for part in 0..LENGTH / block.len() {
        let read = client.read_exact(&mut block);
        assert!(read.is_ok(), "{read:?} after {} bytes", part * block.len());
        // The server may have closed its side.
        let _ = client.try_send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert!(client.ends());
    assert_eq!(server.process.wait().code(), Some(0));
}
