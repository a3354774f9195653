//! An HTTP/3 connection to an upstream, which many exchanges share.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http::uri::Scheme;
use tokio::time::{Instant, sleep_until};

use super::session::Session;
use super::shared_session::SharedSession;
use super::stream::Http3Stream;
use crate::proxy::failure::Failure;
use crate::proxy::metered_stream::Open;
use crate::proxy::protocol::{ConnectionLimits, SharedConnection, UpstreamStream};
use crate::proxy::transport::quic::{QuicConnection, QuicSocket, Tickets};

/// Largest number of exchanges that share a connection, if the upstream allows more.
const MAX_STREAMS: usize = 100;
/// Probe timeouts in a row after which a connection gets no further exchange: the upstream has been silent for seven times the
/// first. Exchanges that have begun have timeouts of their own.
const MAX_PROBES: u32 = 3;

/// HTTP/3 connection. A task drives it, and closes it when it has been idle for too long or the upstream is silent.
pub(in crate::proxy) struct Http3Connection {
    shared: Rc<SharedSession>,
    scheme: Scheme,
    limits: ConnectionLimits,
    opened_at: Instant,
    /// Whether no further exchange may begin.
    is_retired: Cell<bool>,
}

impl std::fmt::Debug for Http3Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Http3Connection({} streams)", self.shared.usage.streams())
    }
}

impl Http3Connection {
    /// Speaks HTTP/3 on a fresh connection, and waits until the upstream allows a stream. Returns the connection with the exchange
    /// that has asked for it.
    ///
    /// # Errors
    /// The upstream has closed the connection.
    pub(in crate::proxy) async fn open(
        opened: QuicConnection,
        open: Open,
        limits: ConnectionLimits,
        scheme: Scheme,
    ) -> Result<(Rc<Http3Connection>, Box<dyn UpstreamStream>), Failure> {
        let QuicConnection { client, socket, tickets } = opened;
        let now = Instant::now();
        let connection = Rc::new(Http3Connection {
            shared: SharedSession::new(Session::new(client, limits.header_bytes), now),
            scheme,
            limits,
            opened_at: now,
            is_retired: Cell::new(false),
        });
        let mut opening = Opening(Some(Rc::clone(&connection)));
        // Until its exchange begins, the connection is not idle.
        let first = Rc::clone(&connection).begin().ok_or(Failure::Closed)?;
        tokio::task::spawn_local(drive(socket, tickets, Rc::clone(&connection), open));
        std::future::poll_fn(|cx| {
            let mut session = connection.shared.session();
            if let Some(failure) = session.end() {
                return Poll::Ready(Err(failure));
            }
            if session.client.has_room() {
                return Poll::Ready(Ok(()));
            }
            session.wait_for_room(cx);
            Poll::Pending
        })
        .await?;
        opening.0.take();
        Ok((connection, first))
    }

    /// Returns whether the connection's task closes it now.
    fn is_over(&self, now: Instant) -> bool {
        let is_unused = !self.shared.view().is_open() || self.is_retired.get();
        self.is_idle() && (is_unused || now >= self.shared.usage.idle_since() + self.limits.idle)
    }

    /// Moves what can be moved now, and returns the time of the next timer.
    ///
    /// # Errors
    /// The host reports that the upstream's port is closed.
    fn turn(&self, socket: &mut QuicSocket, tickets: &Tickets) -> std::io::Result<Instant> {
        let now = Instant::now();
        let mut session = self.shared.session();
        let has_arrived = socket.receive(&mut session.client, now)?;
        session.client.on_timer(now.into_std());
        session.take_events();
        if has_arrived {
            tickets.keep(&session.client);
            session.wake_senders();
        }
        if self.shared.usage.streams() > 0 && socket.is_silent(&session.client, now) {
            session.client.ping();
        }
        socket.flush(&mut session.client, now)?;
        let timer = socket.deadline(&session.client, self.shared.usage.streams() > 0);
        let idle = self.is_idle().then(|| self.shared.usage.idle_since() + self.limits.idle);
        Ok(timer.into_iter().chain(idle).min().unwrap_or(now + Duration::from_secs(1)))
    }
}

impl SharedConnection for Http3Connection {
    fn is_open(&self, now: Instant) -> bool {
        let too_old = !self.limits.max_age.is_zero() && now - self.opened_at >= self.limits.max_age;
        let session = self.shared.view();
        let figures = session.client.quic().figures();
        let is_silent = figures.is_some_and(|figures| figures.probe_timeouts >= MAX_PROBES);
        !too_old && !is_silent && !self.is_retired.get() && session.is_open()
    }

    fn has_room(&self) -> bool {
        let session = self.shared.view();
        let begun = self.shared.usage.streams();
        // Those without a stream yet have the first ones that the upstream allows.
        let unopened = begun.saturating_sub(session.streams()) as u64;
        begun < MAX_STREAMS && unopened < session.client.quic().peer_streams_left_bidi()
    }

    fn is_idle(&self) -> bool {
        self.shared.usage.streams() == 0
    }

    fn begin(self: Rc<Self>) -> Option<Box<dyn UpstreamStream>> {
        if self.is_retired.get() {
            return None;
        }
        let (place, scheme) = (self.shared.usage.begin(), self.scheme.clone());
        Some(Box::new(Http3Stream::new(&self.shared, place, scheme)))
    }

    fn retire(&self) {
        self.is_retired.set(true);
        self.shared.wake();
    }
}

/// Closes a connection that is not open yet if the wait for it ends.
struct Opening(Option<Rc<Http3Connection>>);

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(connection) = &self.0 {
            connection.retire();
        }
    }
}

/// Drives a connection to its end.
async fn drive(
    mut socket: QuicSocket,
    tickets: Tickets,
    connection: Rc<Http3Connection>,
    _open: Open,
) {
    loop {
        if connection.is_over(Instant::now()) {
            connection.shared.session().client.close();
        }
        let turn = connection.turn(&mut socket, &tickets);
        let next = match turn {
            Ok(next) => next,
            Err(_) => {
                connection.shared.session().break_off();
                return;
            }
        };
        if connection.shared.view().end().is_some() {
            return;
        }
        tokio::select! {
            biased;
            () = connection.shared.usage.changed.notified() => {}
            () = socket.readable() => {}
            () = sleep_until(next) => {}
        }
    }
}
