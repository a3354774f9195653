//! An HTTP/2 connection to an upstream, which many exchanges share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong};
use http::uri::Scheme;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::slot::StreamSlot;
use super::stream::Http2Stream;
use crate::proxy::failure::Failure;
use crate::proxy::metered_stream::{Meter, MeteredStream, Open};
use crate::proxy::protocol::usage::Usage;
use crate::proxy::protocol::{ConnectionLimits, SharedConnection, UpstreamStream};
use crate::proxy::transport::ByteStream;

/// Largest number of exchanges that share a connection, if the upstream allows more.
const MAX_STREAMS: u16 = 100;
/// Bytes of a response's body that an upstream may send ahead of the client.
const STREAM_WINDOW: u32 = 256 << 10;
/// Bytes that it may send ahead on all streams: room for all of them, so that slow clients do not hold up the others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * MAX_STREAMS as u32;
/// Largest part of a request's body that waits for the transport, bytes.
const SEND_BUFFER: usize = 64 << 10;
/// Streams that this end has reset of late and remembers, so that what the upstream has sent for them already is no error.
const RESET_STREAMS: usize = 1000;
/// Bytes by which small DATA frames of all streams may exceed the memory of their contents, until clients take them.
const DATA_FRAME_BUDGET: usize = 64 << 20;
/// Time without a byte from the upstream after which a connection is probed that waits for a response. After as much again
/// it gets no further exchange; those that have begun have timeouts of their own.
const PING_AFTER: Duration = Duration::from_secs(20);
/// Time for which a connection without exchanges may say good-bye.
const GOODBYE: Duration = Duration::from_secs(1);

type Driver = Connection<MeteredStream, Bytes>;

/// HTTP/2 connection. A task drives it, and closes it when it has been idle for too long or the upstream is silent.
pub(in crate::proxy) struct Http2Connection {
    /// Opens streams; `None` once no further one may be opened.
    sender: RefCell<Option<SendRequest<Bytes>>>,
    /// Scheme of its requests.
    scheme: Scheme,
    limits: ConnectionLimits,
    meter: Rc<Meter>,
    opened_at: Instant,
    usage: Rc<Usage>,
    ended: Cell<bool>,
    /// Ends the wait for the upstream's settings.
    broken: Notify,
}

impl std::fmt::Debug for Http2Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Http2Connection({} streams)", self.usage.streams())
    }
}

impl Http2Connection {
    /// Speaks HTTP/2 on a fresh stream, and waits for the upstream's settings, so that no more streams are opened than it
    /// allows. Returns the connection with the exchange that has asked for it.
    ///
    /// # Errors
    /// The upstream has closed the stream, or does not speak HTTP/2.
    pub(in crate::proxy) async fn open(
        stream: ByteStream,
        open: Open,
        limits: ConnectionLimits,
        scheme: Scheme,
    ) -> Result<(Rc<Http2Connection>, Box<dyn UpstreamStream>), Failure> {
        let (stream, meter) = MeteredStream::that_ends(stream, open);
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_max_send_streams(0)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buffer_size(SEND_BUFFER)
            // Clients cancel: what arrives afterwards for their streams must not end the connection for all others.
            .max_concurrent_reset_streams(RESET_STREAMS)
            .max_local_error_reset_streams(None)
            .data_frame_budget(DATA_FRAME_BUDGET)
            .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX));
        let opened = builder.handshake::<_, Bytes>(stream).await;
        let (sender, driver) = opened.map_err(|_| Failure::Closed)?;
        let now = Instant::now();
        let connection = Rc::new(Http2Connection {
            sender: RefCell::new(Some(sender)),
            scheme,
            limits,
            meter,
            opened_at: now,
            usage: Usage::new(now),
            ended: Cell::new(false),
            broken: Notify::new(),
        });
        let mut opening = Opening(Some(Rc::clone(&connection)));
        // Until its exchange begins, the connection is not idle.
        let first = Rc::clone(&connection).begin().ok_or(Failure::Closed)?;
        tokio::task::spawn_local(drive(driver, Rc::clone(&connection)));
        while connection.max_streams() == 0 {
            let (arrived, broken) = (connection.meter.arrived(), connection.broken.notified());
            if connection.ended.get() {
                return Err(if connection.meter.read() > 0 {
                    Failure::NoHttp2
                } else {
                    Failure::Closed
                });
            }
            tokio::select! {
                () = arrived => tokio::task::yield_now().await,
                () = broken => {}
            }
        }
        opening.0.take();
        Ok((connection, first))
    }

    /// Returns the number of streams that the upstream and this side allow; zero until its settings have arrived.
    fn max_streams(&self) -> usize {
        let sender = self.sender.borrow();
        let allowed = sender.as_ref().map_or(0, SendRequest::current_max_send_streams);
        allowed.min(usize::from(MAX_STREAMS))
    }
}

impl SharedConnection for Http2Connection {
    fn is_open(&self, now: Instant) -> bool {
        let too_old = !self.limits.max_age.is_zero() && now - self.opened_at >= self.limits.max_age;
        if too_old || self.ended.get() {
            return false;
        }
        let sender = self.sender.borrow().clone();
        sender.is_some_and(|mut sender| {
            // A clone never waits for a stream. It fails once the upstream has sent GOAWAY.
            let mut cx = Context::from_waker(Waker::noop());
            matches!(sender.poll_ready(&mut cx), Poll::Ready(Ok(())))
        })
    }

    fn has_room(&self) -> bool {
        self.usage.streams() < self.max_streams()
    }

    fn is_idle(&self) -> bool {
        self.usage.streams() == 0
    }

    fn begin(self: Rc<Self>) -> Option<Box<dyn UpstreamStream>> {
        let sender = self.sender.borrow().clone()?;
        let slot = StreamSlot::new(sender, self.usage.begin());
        Some(Box::new(Http2Stream::new(slot, self.scheme.clone())))
    }

    fn retire(&self) {
        self.sender.borrow_mut().take();
        self.usage.changed.notify_one();
    }
}

/// Closes a connection that is not open yet if the wait for it ends.
struct Opening(Option<Rc<Http2Connection>>);

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(connection) = &self.0 {
            connection.retire();
        }
    }
}

/// Drives a connection to its end.
async fn drive(mut driver: Driver, connection: Rc<Http2Connection>) {
    let mut probe =
        Probe { pings: driver.ping_pong(), checked_at: connection.opened_at, pinged_at: None };
    loop {
        let deadline = if connection.is_idle() {
            connection.usage.idle_since() + connection.limits.idle
        } else {
            probe.next(&connection.meter)
        };
        tokio::select! {
            biased;
            _ = &mut driver => break,
            () = connection.usage.changed.notified() => {}
            () = sleep_until(deadline) => {
                if connection.is_idle() || !probe.check(&connection.meter) {
                    connection.sender.borrow_mut().take();
                }
            }
        }
        if connection.sender.borrow().is_none() && connection.is_idle() {
            // The upstream gets GOAWAY.
            let _ = tokio::time::timeout(GOODBYE, &mut driver).await;
            break;
        }
    }
    connection.ended.set(true);
    connection.sender.borrow_mut().take();
    drop(driver);
    connection.broken.notify_waiters();
}

/// Finds out whether an upstream that is silent is still there.
struct Probe {
    pings: Option<PingPong>,
    checked_at: Instant,
    pinged_at: Option<Instant>,
}

impl Probe {
    /// Returns the time of the next check.
    fn next(&self, meter: &Meter) -> Instant {
        meter.read_at().max(self.checked_at) + PING_AFTER
    }

    /// Sends a PING to an upstream that was silent since the last check although something was sent to it. Servers count
    /// PINGs, so one that has nothing to respond to gets none. Returns whether the last PING had a response.
    fn check(&mut self, meter: &Meter) -> bool {
        let heard = meter.read_at();
        self.checked_at = Instant::now();
        if self.pinged_at.is_some_and(|at| heard < at) {
            return false;
        }
        if meter.written_at() > heard
            && let Some(pings) = &mut self.pings
        {
            // Any byte is a sign of life, so the acknowledgement only makes room for the next PING.
            let _ = pings.poll_pong(&mut Context::from_waker(Waker::noop()));
            let _ = pings.send_ping(Ping::opaque());
            self.pinged_at = Some(self.checked_at);
        }
        true
    }
}
