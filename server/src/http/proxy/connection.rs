//! A connection to an upstream that serves one request after another.

use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use super::metered_stream::{Meter, MeteredStream, Open};
use super::transport::ByteStream;
use super::upload::UploadBody;

/// What hyper reads and writes in one go at most, unless a larger head is allowed; it takes no less than 8 KiB.
const BUFFER: usize = 64 << 10;

type Driver = Connection<TokioIo<MeteredStream>, UploadBody>;

/// The connection. Nothing moves on it unless somebody drives it, and dropping it closes it.
pub(super) struct UpstreamConnection {
    sender: SendRequest<UploadBody>,
    /// `None` once it is closed.
    driver: Option<Pin<Box<Driver>>>,
    meter: Rc<Meter>,
    used: bool,
}

impl UpstreamConnection {
    /// HTTP/1.1 over a fresh connection; `None` where hyper refuses it.
    pub(super) async fn new(
        stream: ByteStream,
        open: Open,
        header_bytes: u64,
    ) -> Option<UpstreamConnection> {
        let header_bytes = usize::try_from(header_bytes).unwrap_or(usize::MAX);
        let (wire, meter) = MeteredStream::new(stream, open);
        let mut builder = Builder::new();
        builder
            .max_buf_size(header_bytes.max(BUFFER))
            .max_header_size(header_bytes);
        let (sender, driver) = builder.handshake(TokioIo::new(wire)).await.ok()?;
        Some(UpstreamConnection {
            sender,
            driver: Some(Box::pin(driver)),
            meter,
            used: false,
        })
    }

    /// Hands over a request; the answer comes while the connection is driven.
    pub(super) fn send(
        &mut self,
        request: http::Request<UploadBody>,
    ) -> impl Future<Output = hyper::Result<http::Response<hyper::body::Incoming>>> + use<> {
        self.used = true;
        self.meter.restart(Instant::now());
        self.sender.send_request(request)
    }

    /// Returns the meter of what has moved since the last request was handed over.
    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Whether it has served a request before.
    pub(super) fn used(&self) -> bool {
        self.used
    }

    /// Moves what can be moved now.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && driver.as_mut().poll(cx).is_ready()
        {
            self.driver = None;
        }
    }

    /// Whether another request can be sent on it, as far as is known: [`UpstreamConnection::poll`] tells.
    pub(super) fn is_ready(&self) -> bool {
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Keeps the connection moving until `future` is ready.
    pub(super) async fn drive<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| self.poll_with(cx, |cx| future.as_mut().poll(cx))).await
    }

    /// Asks before and after the connection has moved, so that what it has brought is seen in the same turn.
    pub(super) fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut ask: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if let Poll::Ready(ready) = ask(cx) {
            return Poll::Ready(ready);
        }
        self.poll(cx);
        ask(cx)
    }
}
