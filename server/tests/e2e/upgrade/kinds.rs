//! Clients of every kind, with something open while the server is upgraded.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Receiver;

use bytes::{Buf as _, Bytes};
use h3::client::RequestStream;
use h3_quinn::BidiStream;
use http::Request;

use super::load::Download;
use super::{Line, setup};
use crate::client::{Client, Session, generated, generated_sha256, run};
use crate::proxy::Upstream;
use crate::relay::Relay;
use crate::server::{PAGE, Server};
use crate::tcp::tunnels;
use crate::{connect_udp, grpc, on_every_backend};

on_every_backend!(what_is_open_outlives_upgrades);

/// Upgrades of the test.
const UPGRADES: u64 = 6;
/// Bytes of a download or an upload between two of them.
const PIECE: u64 = 128 << 10;
/// Size of a download: more than the windows of a client take.
const DOWNLOAD: u64 = 64 << 20;

/// A stream on which each message comes back.
struct Echo {
    _session: Session,
    stream: RequestStream<BidiStream<Bytes>, Bytes>,
}

impl Echo {
    async fn open(client: &Client, server: SocketAddr, request: Request<()>) -> Echo {
        let mut session = client.connect(server).await;
        let mut stream = session.begin(request).await;
        assert_eq!(stream.recv_response().await.unwrap().status(), 200);
        Echo { _session: session, stream }
    }

    async fn exchange(&mut self, message: &'static [u8]) {
        self.stream.send_data(Bytes::from_static(message)).await.unwrap();
        let mut back = self.stream.recv_data().await.unwrap().unwrap();
        assert_eq!(back.copy_to_bytes(back.remaining()), message);
    }

    async fn end(mut self) {
        self.stream.finish().await.unwrap();
        assert!(self.stream.recv_data().await.unwrap().is_none());
    }
}

/// An upload that takes as long as the test.
pub(super) struct Upload {
    _session: Session,
    stream: RequestStream<BidiStream<Bytes>, Bytes>,
    at: u64,
    length: u64,
}

impl Upload {
    pub(super) async fn begin(client: &Client, server: SocketAddr, length: u64) -> Upload {
        let mut session = client.connect(server).await;
        let request = Request::post("https://localhost/app/up");
        let request = request.header("content-length", length).body(()).unwrap();
        let stream = session.begin(request).await;
        Upload { _session: session, stream, at: 0, length }
    }

    pub(super) async fn go_on(&mut self, bytes: u64) {
        self.stream.send_data(generated(self.at, bytes).into()).await.unwrap();
        self.at += bytes;
    }

    pub(super) async fn end(mut self) {
        // The server has all of it, and may have said so.
        let _ = self.stream.finish().await;
        assert_eq!(self.stream.recv_response().await.unwrap().status(), 200);
        let mut answer = self.stream.recv_data().await.unwrap().unwrap();
        let answer = answer.copy_to_bytes(answer.remaining());
        let expected = format!("{} {}", self.length, generated_sha256(self.length));
        assert_eq!(answer, expected.as_bytes());
    }
}

/// A WebSocket over TCP, and the upstream's end of it.
struct WebSocket {
    client: tunnels::Client,
    upstream: TcpStream,
}

impl WebSocket {
    fn exchange(&mut self) {
        let mut received = [0; 3];
        self.client.send(b"one");
        self.upstream.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"one");
        self.upstream.write_all(b"two").unwrap();
        assert_eq!(self.client.read(3), b"two");
    }
}

/// Gets the page in early data, over a connection of its own.
async fn return_early(client: &Client, server: SocketAddr) {
    let (mut session, accepted) = client.connect_early(server).await;
    assert_eq!(session.get("/").await.text().await, PAGE);
    assert!(accepted.await);
}

fn open_websockets(server: &Server, switched: &Receiver<TcpStream>) -> Vec<WebSocket> {
    let open = |is_http2| {
        let client = tunnels::Client::open(server, is_http2);
        WebSocket { client, upstream: switched.recv().unwrap() }
    };
    [false, true].map(open).into()
}

fn what_is_open_outlives_upgrades(backend: &str) {
    let (upstream, calls, target) = (Upstream::start(), grpc::start(), connect_udp::target());
    let (switching, switched) = tunnels::upstream();
    let setup = setup(backend).with(&format!(
        "[quic]\nearly_data = true\n{}{}\n\
         [[route]]\npath = \"/test.Echo/\"\nproxy.upstreams = \"h2c://{calls}\"\n\
         [[route]]\npath = \"/.well-known/masque/udp\"\nconnect_udp = {{ allow = \"{target}\" }}",
        upstream.route(),
        tunnels::route(switching),
    ));
    let mut line = Line::start(&setup);
    let at = line.server.address();
    let mut websockets = open_websockets(&line.server, &switched);
    run(async {
        let client = || Client::new(&line.folder);
        let (one, hasty) = (client(), Client::hasty(&line.folder));
        let mut tunnel = connect_udp::request(target);
        tunnel.extensions_mut().insert(h3::ext::Protocol::CONNECT_UDP);
        let mut tunnel = Echo::open(&one, at, tunnel).await;
        let mut call = Echo::open(&one, at, grpc::request("Echo")).await;
        let mut upload = Upload::begin(&one, at, UPGRADES * PIECE).await;
        let mut moving = Download::begin(client(), at, DOWNLOAD).await;
        let relay = Relay::start(at).await;
        let mut behind_nat = Download::begin(client(), relay.address, DOWNLOAD).await;
        assert_eq!(hasty.connect(at).await.get("/").await.text().await, PAGE);
        for _ in 0..UPGRADES {
            line.upgrade_beside().await;
            websockets.iter_mut().for_each(WebSocket::exchange);
            tunnel.exchange(connect_udp::ONE).await;
            call.exchange(b"\0\0\0\0\x03one").await;
            upload.go_on(PIECE).await;
            moving.change_port();
            moving.go_on(PIECE).await;
            relay.change_port();
            behind_nat.go_on(PIECE).await;
            return_early(&hasty, at).await;
        }
        tunnel.end().await;
        call.end().await;
        upload.end().await;
        moving.break_off().await;
        behind_nat.break_off().await;
    });
    // The first process waits for their end.
    drop(websockets);
    line.end();
}
