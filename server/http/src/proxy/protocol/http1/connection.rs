//! An HTTP/1.1 connection to an upstream.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use http::header::UPGRADE;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::task::coop::has_budget_remaining;
use tokio::time::Instant;

use crate::proxy::metered_stream::{Meter, MeteredStream, Open};
use crate::proxy::transport::ByteStream;
use crate::proxy::tunnel::TunnelStream;
use crate::proxy::upload::UploadBody;

/// Largest read and write of hyper, bytes, unless a larger head is allowed; hyper takes no less than 8 KiB.
const BUFFER: usize = 64 << 10;

type Driver = Connection<TokioIo<MeteredStream>, UploadBody>;

/// HTTP/1.1 connection, which serves one exchange after another. Nothing moves on it unless somebody polls it, and
/// dropping it closes it.
pub(in crate::proxy) struct Http1Connection {
    sender: SendRequest<UploadBody>,
    /// State machine of the connection; `None` once the connection is closed.
    driver: Option<Pin<Box<Driver>>>,
    /// State machine of a connection that speaks another protocol now, for which its request asked.
    switched: Option<Pin<Box<Driver>>>,
    asks_upgrade: bool,
    meter: Rc<Meter>,
    opened_at: Instant,
    /// Requests sent so far.
    requests: u64,
    /// Waker of the connection while nobody drives it.
    alert: Arc<Alert>,
}

/// Notes that something may have happened on a connection that nobody drives.
#[derive(Debug, Default)]
struct Alert(AtomicBool);

impl Wake for Alert {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Http1Connection {
    /// Speaks HTTP/1.1 on a fresh stream; `None` if hyper refuses it.
    pub(in crate::proxy) async fn new(
        stream: ByteStream,
        open: Open,
        header_bytes: u64,
    ) -> Option<Http1Connection> {
        let header_bytes = usize::try_from(header_bytes).unwrap_or(usize::MAX);
        let (stream, meter) = MeteredStream::new(stream, open);
        let mut builder = Builder::new();
        builder.max_buf_size(header_bytes.max(BUFFER)).max_header_size(header_bytes);
        let (sender, driver) = builder.handshake(TokioIo::new(stream)).await.ok()?;
        Some(Http1Connection {
            sender,
            driver: Some(Box::pin(driver)),
            switched: None,
            asks_upgrade: false,
            meter,
            opened_at: Instant::now(),
            requests: 0,
            alert: Arc::default(),
        })
    }

    /// Sends a request. The response comes while the connection is polled.
    pub(in crate::proxy) fn send(
        &mut self,
        request: http::Request<UploadBody>,
    ) -> impl Future<Output = hyper::Result<http::Response<hyper::body::Incoming>>> + use<> {
        self.meter.restart(Instant::now());
        self.requests += 1;
        self.asks_upgrade = request.headers().contains_key(UPGRADE);
        self.sender.send_request(request)
    }

    /// Returns the meter of what has moved since the last request was sent.
    pub(in crate::proxy) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns whether the connection served another request before the current one.
    pub(in crate::proxy) fn is_reused(&self) -> bool {
        self.requests > 1
    }

    /// Returns the time since the connection was opened.
    pub(in crate::proxy) fn age(&self) -> Duration {
        self.opened_at.elapsed()
    }

    /// Moves what can be moved now.
    pub(in crate::proxy) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && driver.as_mut().poll(cx).is_ready()
        {
            let driver = self.driver.take();
            self.switched = driver.filter(|_| self.asks_upgrade);
        }
    }

    /// Moves what can be moved now, and from then on only remembers whether something happens, for [`Http1Connection::resume`].
    pub(in crate::proxy) fn rest(&mut self) {
        self.alert.0.store(false, Ordering::Relaxed);
        let waker = Arc::clone(&self.alert).into();
        self.poll(&mut Context::from_waker(&waker));
        // Beyond a task's budget tokio reads nothing, and wakes the alert only after other tasks may have taken the connection.
        if !has_budget_remaining() {
            self.alert.0.store(true, Ordering::Relaxed);
        }
    }

    /// Moves what can be moved now on a connection at rest, if anything has happened there.
    pub(in crate::proxy) fn resume(&mut self, cx: &mut Context<'_>) {
        if self.alert.0.load(Ordering::Relaxed) {
            self.poll(cx);
        }
    }

    /// Moves what can be moved now on a connection at rest, and wakes the caller for what happens later.
    pub(in crate::proxy) fn watch(&mut self, cx: &mut Context<'_>) {
        // The caller's waker is in place of the alert, which therefore has to expect anything.
        self.alert.0.store(true, Ordering::Relaxed);
        self.poll(cx);
    }

    /// Returns the byte stream after the upstream has switched to another protocol; `None` if the connection failed.
    pub(in crate::proxy) async fn into_tunnel(mut self) -> Option<TunnelStream> {
        // hyper is done once it has passed on the response.
        std::future::poll_fn(|cx| {
            self.poll(cx);
            match self.driver {
                Some(_) => Poll::Pending,
                None => Poll::Ready(()),
            }
        })
        .await;
        let parts = Pin::into_inner(self.switched?).into_parts();
        Some(TunnelStream {
            stream: Box::new(parts.io.into_inner()),
            meter: self.meter,
            early: parts.read_buf,
        })
    }

    /// Returns whether another request can be sent, as far as the last [`Http1Connection::poll`] has seen.
    pub(in crate::proxy) fn is_ready(&self) -> bool {
        self.driver.is_some() && self.sender.is_ready()
    }
}
