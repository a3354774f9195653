//! Tunnels for UDP (RFC 9298) of clients that nobody here wrote, to a target on this host.

use std::net::{SocketAddr, UdpSocket};

use bytes::{Buf as _, Bytes};
use http::{Method, Request};

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, run};
use crate::fronts::connect;
use crate::server::{Folder, Server, Setup};

/// Capsule with a datagram of the context 0.
pub(crate) const ONE: &[u8] = b"\x00\x04\x00one";

/// Starts a target that returns each datagram to its sender.
pub(crate) fn target() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 65_535];
        while let Ok((count, client)) = socket.recv_from(&mut bytes) {
            socket.send_to(&bytes[..count], client).unwrap();
        }
    });
    address
}

/// Returns a request for a tunnel to a target.
pub(crate) fn request(target: SocketAddr) -> Request<()> {
    let path = format!("/.well-known/masque/udp/{}/{}/", target.ip(), target.port());
    let request = Request::builder().method(Method::CONNECT);
    let request = request.uri(format!("https://localhost{path}"));
    request.header("capsule-protocol", "?1").body(()).unwrap()
}

/// Sends datagrams to a target over HTTP/3, one after the other, and ends the tunnel.
async fn over_http3(server: SocketAddr, folder: &Folder, target: SocketAddr) {
    let client = Client::new(folder);
    let mut session = client.connect(server).await;
    let mut tunnel = request(target);
    tunnel.extensions_mut().insert(h3::ext::Protocol::CONNECT_UDP);
    let mut stream = session.begin(tunnel).await;
    let head = stream.recv_response().await.unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(head.headers()["capsule-protocol"], "?1");
    for _ in 0..3 {
        stream.send_data(Bytes::from_static(ONE)).await.unwrap();
        let mut block = stream.recv_data().await.unwrap().unwrap();
        assert_eq!(block.copy_to_bytes(block.remaining()), ONE);
    }
    stream.finish().await.unwrap();
    assert!(stream.recv_data().await.unwrap().is_none());
}

/// Does the same over HTTP/2, and asks for a target that is not allowed.
async fn over_http2(server: SocketAddr, target: SocketAddr, other: SocketAddr) {
    let udp = h2::ext::Protocol::from_static("connect-udp");
    let [tunnel, refused] = [target, other].map(|target| {
        let mut tunnel = request(target);
        tunnel.extensions_mut().insert(udp.clone());
        tunnel
    });
    let mut client = connect(server).await;
    let (response, mut sender) = client.send_request(tunnel, false).unwrap();
    let head = response.await.unwrap();
    assert_eq!(head.status(), 200);
    let mut body = head.into_body();
    for _ in 0..3 {
        sender.send_data(Bytes::from_static(ONE), false).unwrap();
        assert_eq!(body.data().await.unwrap().unwrap(), ONE);
    }
    sender.send_data(Bytes::new(), true).unwrap();
    let last = body.data().await;
    assert!(last.is_none_or(|data| data.unwrap().is_empty()));
    let (response, _sender) = client.send_request(refused, false).unwrap();
    assert_eq!(response.await.unwrap().status(), 403);
}

#[test]
fn datagrams_pass_over_http3_and_http2() {
    let folder = Folder::new();
    let (allowed, other) = (target(), target());
    let setup = Setup::new("mio")
        .with(ADMIN)
        .listener("main", "127.0.0.1:0", "cubic")
        .with(&format!(
            "[[route]]\npath = \"/.well-known/masque/udp\"\nconnect_udp = {{ allow = \"{allowed}\" }}\n\
             [access_log]\nfile = \"access.log\"\nformat = \"json\"\n"
        ));
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        over_http3(server.address(), &folder, allowed).await;
        over_http2(server.address(), allowed, other).await;
    });
    let found = metrics(admin);
    let refused = "sluicegate_udp_tunnels_refused_total{reason=\"denied\"}";
    for (name, value) in [
        ("sluicegate_udp_tunnels", 0.0),
        ("sluicegate_udp_tunnels_opened_total", 2.0),
        (refused, 1.0),
        ("sluicegate_udp_tunnel_datagrams_total{to=\"target\"}", 6.0),
        ("sluicegate_udp_tunnel_datagrams_total{to=\"client\"}", 6.0),
    ] {
        assert_eq!(found[name], value, "{name}");
    }
    server.process.terminate();
    server.process.wait();
    let log = std::fs::read_to_string(folder.path("access.log")).unwrap();
    let upstream = format!("\"upstream\":\"{allowed}\"");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(&upstream)).collect();
    assert_eq!(lines.len(), 2, "{log}");
    for line in lines {
        assert!(line.contains("\"outcome\":\"complete\""), "{line}");
        assert!(line.contains("\"bytes_sent\":18"), "{line}");
    }
}
