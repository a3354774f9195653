//! Connections to one upstream that exchanges share, whatever their protocol.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::failure::Failure;
use super::protocol::{SharedConnection, UpstreamStream};

/// Connections that exchanges share, the one that is used first in front.
#[derive(Debug, Default)]
pub(super) struct SharedConnections {
    open: RefCell<Vec<Rc<dyn SharedConnection>>>,
    opening: RefCell<Option<Rc<Opening>>>,
    closed: Cell<bool>,
}

/// A connection that is being opened.
#[derive(Debug, Default)]
struct Opening {
    ended: Notify,
    /// Why there is none, if that is known.
    failure: Cell<Option<Failure>>,
}

/// Turn of a request that found no room.
pub(super) enum Turn<'a> {
    /// It opens a connection.
    Open(Opener<'a>),
    /// Another request has opened one.
    Retry,
}

/// The one request that opens a connection. The others wait until it is dropped.
pub(super) struct Opener<'a> {
    connections: &'a SharedConnections,
    opening: Rc<Opening>,
}

impl Opener<'_> {
    /// Notes why there is no connection: the requests that wait fail for the same reason.
    pub(super) fn fail(&self, failure: Failure) {
        self.opening.failure.set(Some(failure));
    }
}

impl Drop for Opener<'_> {
    fn drop(&mut self) {
        self.connections.opening.borrow_mut().take();
        self.opening.ended.notify_waiters();
    }
}

impl SharedConnections {
    /// Begins an exchange on a connection that has room. Connections that take no further request are forgotten.
    pub(super) fn take(&self) -> Option<Box<dyn UpstreamStream>> {
        let mut open = self.open.borrow_mut();
        let now = Instant::now();
        open.retain(|connection| {
            let usable = connection.is_open(now);
            if !usable {
                connection.retire();
            }
            usable
        });
        let free = open.iter().find(|connection| connection.has_room())?;
        Rc::clone(free).begin()
    }

    /// Waits for the request that opens a connection, or lets this one open it.
    ///
    /// # Errors
    /// Why the other request could not open one; [`Failure::ConnectTimeout`] after `deadline`.
    pub(super) async fn turn(&self, deadline: Instant) -> Result<Turn<'_>, Failure> {
        let known = self.opening.borrow().clone();
        let Some(opening) = known else {
            let opening = Rc::new(Opening::default());
            *self.opening.borrow_mut() = Some(Rc::clone(&opening));
            return Ok(Turn::Open(Opener { connections: self, opening }));
        };
        let ended = timeout_at(deadline, opening.ended.notified()).await;
        match opening.failure.get() {
            Some(failure) => Err(failure),
            None => ended.map_or(Err(Failure::ConnectTimeout), |()| Ok(Turn::Retry)),
        }
    }

    /// Adds a connection, for further requests.
    pub(super) fn add(&self, connection: Rc<dyn SharedConnection>) {
        if self.closed.get() {
            connection.retire();
        } else {
            self.open.borrow_mut().push(connection);
        }
    }

    /// Closes all connections once their exchanges have ended, and keeps none from now on.
    pub(super) fn close(&self) {
        self.closed.set(true);
        for connection in self.open.borrow_mut().drain(..) {
            connection.retire();
        }
    }

    /// Returns the number of connections without an exchange.
    pub(super) fn idle(&self) -> usize {
        let open = self.open.borrow();
        open.iter().filter(|connection| connection.is_idle()).count()
    }
}

impl Drop for SharedConnections {
    fn drop(&mut self) {
        self.close();
    }
}
