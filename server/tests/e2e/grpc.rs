//! Calls in the form of gRPC to an upstream that speaks HTTP/2.

mod front;
mod interop;

use std::net::SocketAddr;

use bytes::{Buf as _, Bytes};
use h2::RecvStream;
use h2::server::SendResponse;

use crate::client::{Client, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};
use crate::upstream;

on_auto!(calls_stream_both_ways_and_end_with_their_status);

/// Starts an upstream that sends each message back, unless the method is another than `Echo`.
pub(crate) fn start() -> SocketAddr {
    upstream::start_http2(call)
}

/// Handles a call.
async fn call(request: http::Request<RecvStream>, mut sender: SendResponse<Bytes>) {
    let head = http::Response::builder().header("content-type", "application/grpc");
    let fields = request.headers();
    // Servers refuse a client that might not receive the status (gRPC over HTTP/2).
    if fields.get("te").is_none_or(|te| te != "trailers") {
        let refusal = http::Response::builder().status(400).body(()).unwrap();
        let _ = sender.send_response(refusal, true);
        return;
    }
    if request.uri().path() != "/test.Echo/Echo" {
        let unimplemented = head.header("grpc-status", "12").body(()).unwrap();
        let _ = sender.send_response(unimplemented, true);
        return;
    }
    let mut requests = request.into_body();
    let mut responses = sender.send_response(head.body(()).unwrap(), false).unwrap();
    while let Some(Ok(message)) = requests.data().await {
        let _ = requests.flow_control().release_capacity(message.len());
        responses.send_data(message, false).unwrap();
    }
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    responses.send_trailers(trailers).unwrap();
}

pub(crate) fn request(method: &str) -> http::Request<()> {
    http::Request::post(format!("https://localhost/test.Echo/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap()
}

fn calls_stream_both_ways_and_end_with_their_status(backend: &str) {
    let folder = Folder::new();
    let upstream = start();
    let setup = Setup::new(backend).listener("one", "127.0.0.1:0", "cubic").with(&format!(
        "[[route]]\npath = \"/test.Echo/\"\nproxy.upstreams = \"h2c://{upstream}\"\n"
    ));
    let server = Server::start(&setup, &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let mut echo = session.begin(request("Echo")).await;
        let head = echo.recv_response().await.unwrap();
        assert_eq!(head.status(), 200);
        assert_eq!(head.headers()["content-type"], "application/grpc");
        // Each message comes back before the next one is sent.
        for message in ["\0\0\0\0\x03one", "\0\0\0\0\x03two"] {
            echo.send_data(message.into()).await.unwrap();
            let mut back = echo.recv_data().await.unwrap().unwrap();
            assert_eq!(back.copy_to_bytes(back.remaining()), message);
        }
        // Another call ends meanwhile, with its status in the head, although its client has not ended.
        let mut other = session.begin(request("Other")).await;
        let head = other.recv_response().await.unwrap();
        assert_eq!(
            (head.status().as_u16(), &head.headers()["grpc-status"]),
            (200, &"12".parse().unwrap())
        );
        assert!(other.recv_data().await.unwrap().is_none());
        echo.finish().await.unwrap();
        assert!(echo.recv_data().await.unwrap().is_none());
        let trailers = echo.recv_trailers().await.unwrap().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
    });
}
