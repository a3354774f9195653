//! Upstreams that run in the process of the tests.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::Request;
use tokio::net::TcpStream;

/// Starts an upstream at 127.0.0.1 whose connections are served by `serve`, each in a task of its own.
pub(crate) fn start<S, F>(serve: S) -> SocketAddr
where
    S: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
    });
    address
}

/// Starts an upstream of HTTP/2 without TLS whose requests are handled by `handle`, each in a task of its own.
pub(crate) fn start_http2<H, F>(handle: H) -> SocketAddr
where
    H: Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    start(move |stream| {
        let handle = handle.clone();
        async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, response))) = connection.accept().await {
                tokio::spawn(handle(request, response));
            }
        }
    })
}
