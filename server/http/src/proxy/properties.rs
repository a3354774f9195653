//! The bytes that an upstream receives of a request, for a check by a parser that is not ours, and what it may respond.

mod response;

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderName;
use sluicegate_cc::Registry;
use sluicegate_config::{Config, Handler, Proxy};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::definition::{PoolCompiler, SitePools};
use super::exchange::Exchange;
use super::metered_stream::Open;
use super::pool::Pools;
use super::protocol::Http1Connection;
use super::rules::RequestRules;
use super::upload::UploadBody;
use crate::exchange::handler::{FrontQueue, Incoming};
use crate::exchange::message::{Request, ToHandler};
use crate::exchange::{ErrorPages, FieldNames, Fields, Opaque, RequestHead};
use crate::path::{CanonicalPath, PathError};
use crate::peer::{Peer, PeerConnection};

pub use response::response;

/// Returns whether a field is one by which an upstream could take a client for somebody.
pub fn is_claim(name: &str) -> bool {
    super::claims::is_claim(name)
}

/// A configuration with a proxy, whose upstream nobody connects to.
const ROUTE: &str = r#"
[[listener]]
name = "trial"
tls = "self-signed"
address = "127.0.0.1:0"
[[route]]
path = "/"
proxy = { upstreams = "192.0.2.80:80" }
"#;

/// Rounds without a new byte after which a request counts as written.
const SILENT: usize = 4;

thread_local! {
    static PROXY: Proxy = configured();
    static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime without I/O");
}

fn configured() -> Proxy {
    let config = Config::from_toml("trial", ROUTE, &Registry::builtin());
    let mut config = config.unwrap_or_else(|error| panic!("{error}"));
    match config.routes.remove(0).handler {
        Handler::Proxy(proxy) => proxy,
        other => panic!("{other:?} is no proxy"),
    }
}

/// A request that is all there, and the way to forward it.
pub struct Forwarded {
    /// Head of the request.
    pub head: RequestHead,
    /// Length of the body, if the client announced it.
    pub content_length: Option<u64>,
    /// Blocks of the body; `None` if the request ends with its head.
    pub body: Option<Vec<Bytes>>,
    /// Trailers behind a body.
    pub trailers: Option<Fields>,
    /// Whether the upstream gets the client's spelling of the path.
    pub raw_path: bool,
}

/// Pages of a route without any.
pub(super) static NO_PAGES: ErrorPages = ErrorPages::new(Vec::new());

/// Rules of a route for `/` that changes nothing.
pub struct Unchanged;

impl RequestRules for Unchanged {
    fn prefix(&self) -> &str {
        ""
    }

    fn rest<'a>(&self, path: &'a CanonicalPath) -> &'a str {
        path.forward(1)
    }

    fn rewrite(&self, _: &RequestHead) -> Option<Result<CanonicalPath, PathError>> {
        None
    }

    fn error_pages(&self) -> &ErrorPages {
        &NO_PAGES
    }

    fn sets(&self, _: &HeaderName) -> bool {
        false
    }

    fn replaced(&self) -> FieldNames {
        FieldNames::default()
    }

    fn removes(&self, _: &HeaderName) -> bool {
        false
    }
}

/// A stream that keeps what is written to it, and on which nothing comes back.
#[derive(Clone, Default)]
struct Kept(Rc<RefCell<Vec<u8>>>);

impl AsyncWrite for Kept {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Kept {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

/// Returns the bytes that an upstream receives; `None` if the proxy refuses to forward the request.
pub fn written(forwarded: Forwarded) -> Option<Vec<u8>> {
    let mut proxy = PROXY.with(Proxy::clone);
    proxy.raw_path = forwarded.raw_path;
    RUNTIME.with(|runtime| runtime.block_on(write(&proxy, forwarded)))
}

async fn write(proxy: &Proxy, forwarded: Forwarded) -> Option<Vec<u8>> {
    let (incoming, exchange) =
        Incoming::new(1, Box::new(request(&forwarded)), u64::MAX, Rc::new(FrontQueue::default()));
    for block in forwarded.body.into_iter().flatten() {
        exchange.deliver(ToHandler::Data(block));
    }
    exchange.deliver(ToHandler::End(forwarded.trailers));
    let (pools, sites) = (Pools::default(), SitePools::default());
    let route = PoolCompiler::new(&sites).compile(proxy).expect("no TLS");
    let reporter = incoming.reporter();
    let Incoming { request, body, .. } = incoming;
    let exchange = Exchange::new(&pools, &route, &Unchanged, request, body, reporter);
    let framing = exchange.framing().await.ok()?;
    let head = exchange.rewritten(framing, "192.0.2.80").ok()?;
    let kept = Kept::default();
    let open = Open::new(&Rc::default());
    let stream = Box::new(kept.clone());
    let header_bytes = proxy.pool.pool().settings.header_bytes;
    let mut connection = Http1Connection::new(stream, open, header_bytes);
    connection.send(&head, UploadBody(Rc::clone(&exchange.upload)));
    std::future::poll_fn(|cx| {
        let mut silent = 0;
        while silent < SILENT {
            let before = kept.0.borrow().len();
            connection.poll(cx);
            let moved = kept.0.borrow().len() > before;
            silent = if moved { 0 } else { silent + 1 };
        }
        Poll::Ready(())
    })
    .await;
    let bytes = kept.0.take();
    Some(bytes)
}

fn request(forwarded: &Forwarded) -> Request {
    let connection = PeerConnection::http3(Arc::from("trial"), Box::default(), "cubic");
    Request {
        head: forwarded.head.clone(),
        peer: Peer {
            address: ([192, 0, 2, 7], 50_000).into(),
            proxy: None,
            local: None,
            early_data: false,
            connection: Arc::new(connection),
        },
        handler: Opaque::new(Arc::new(())),
        timeout: None,
        content_length: forwarded.content_length,
        has_body: forwarded.body.is_some(),
        wants_report: false,
        reads_ranges: false,
    }
}
