//! Upstreams that speak HTTP/3: this server itself, and one by `h3` over `quinn` whose faults the tests choose.

mod faults;
mod peer;

use std::net::SocketAddr;

use bytes::{Buf as _, Bytes};
use http::{Request, Response};

use self::peer::{Peer, PeerStream};
use crate::client::{Client, generated, run};
use crate::fronts::{FRONTS, Outcome};
use crate::on_auto;
use crate::server::{Folder, PAGE, Server, Setup};

on_auto!(every_front_reaches_this_server_over_http3, bodies_and_hints_pass_both_ways);

/// Bytes of a body that fills every window on the way.
const LARGE: u64 = 20 << 20;

/// Returns a server with one listener that forwards all requests below `/` to upstreams at these addresses, with keys of the proxy.
fn edge(backend: &str, upstreams: &[SocketAddr], keys: &str) -> Setup {
    let addresses: Vec<_> = upstreams.iter().map(|at| format!("\"h3://{at}\"")).collect();
    Setup::of(format!(
        "[[group]]\nname = \"default\"\nbackend = \"{backend}\"\ncores = [0]\n\
         [[route]]\npath = \"/\"\nmax_request_body = \"100MiB\"\n[route.proxy]\nupstreams = [{}]\n\
         tls_ca = \"cert.pem\"\ntls_name = \"localhost\"\n{keys}\n",
        addresses.join(", ")
    ))
    .listener("edge", "127.0.0.1:0", "cubic")
}

fn every_front_reaches_this_server_over_http3(backend: &str) {
    let folder = Folder::new();
    let origin = Setup::new(backend).listener("origin", "127.0.0.1:0", "cubic");
    let origin = Server::start(&origin, &folder);
    let keys = "congestion_control = \"bbr3\"";
    let server = Server::start(&edge(backend, &[origin.address()], keys), &folder);
    for front in FRONTS {
        let outcome = front.get(server.address(), &folder, "/");
        assert_eq!(outcome, Outcome::Whole(200, None, PAGE.into()), "{front:?}");
    }
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        for length in [1, 100_000, LARGE] {
            let body = session.get(&format!("/bytes/{length}")).await.bytes().await;
            assert!(body == generated(0, length), "{length}");
        }
        // Many at a time, on one connection.
        let mut responses = Vec::new();
        for _ in 0..50 {
            responses.push(session.ask("/bytes/50000").await);
        }
        for mut response in responses {
            assert_eq!(response.recv_response().await.unwrap().status(), 200);
            let mut length = 0;
            while let Some(piece) = response.recv_data().await.unwrap() {
                length += piece.remaining();
            }
            assert_eq!(length, 50_000);
        }
        assert_eq!(session.get("/bytes/none").await.head.status(), 404);
    });
}

/// Sends back what the request has: method, path, a field and body.
async fn echo(request: Request<()>, mut stream: PeerStream) {
    let hint = Response::builder().status(103).header("link", "</a.css>");
    stream.send_response(hint.body(()).unwrap()).await.unwrap();
    let head = Response::builder()
        .header("x-request", format!("{} {}", request.method(), request.uri().path()))
        .header("x-authority", request.uri().authority().unwrap().as_str());
    stream.send_response(head.body(()).unwrap()).await.unwrap();
    while let Some(mut piece) = stream.recv_data().await.unwrap() {
        stream.send_data(piece.copy_to_bytes(piece.remaining())).await.unwrap();
    }
    stream.finish().await.unwrap();
}

fn bodies_and_hints_pass_both_ways(backend: &str) {
    let folder = Folder::new();
    let peer = Peer::start(&folder, echo);
    let server = Server::start(&edge(backend, &[peer.address], ""), &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let request = Request::post("https://localhost/echo").body(()).unwrap();
        let (mut send, mut receive) = session.begin(request).await.split();
        let upload = async {
            let piece = Bytes::from(vec![7; 1 << 20]);
            for _ in 0..LARGE >> 20 {
                send.send_data(piece.clone()).await.unwrap();
            }
            send.finish().await.unwrap();
        };
        let download = async {
            let hint = receive.recv_response().await.unwrap();
            assert_eq!(hint.status(), 103);
            assert_eq!(hint.headers()["link"], "</a.css>");
            let head = receive.recv_response().await.unwrap();
            assert_eq!(head.headers()["x-request"], "POST /echo");
            assert_eq!(head.headers()["x-authority"], "localhost");
            let mut length = 0;
            while let Some(piece) = receive.recv_data().await.unwrap() {
                length += piece.remaining() as u64;
            }
            assert_eq!(length, LARGE);
        };
        tokio::join!(upload, download);
        let head = Request::head("https://localhost/head").body(()).unwrap();
        let mut response = session.begin(head).await;
        response.finish().await.unwrap();
        assert_eq!(response.recv_response().await.unwrap().status(), 103);
        assert_eq!(response.recv_response().await.unwrap().headers()["x-request"], "HEAD /head");
    });
    assert_eq!(peer.connections(), 1);
}
