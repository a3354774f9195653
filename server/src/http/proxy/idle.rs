//! Idle connections to one upstream.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::counters::Tally;
use super::definition::UpstreamSettings;
use super::http1::Http1Connection;

/// Time for which a connection beyond the limit stays idle: the next burst of requests finds it.
pub(super) const SURPLUS: Duration = Duration::from_secs(5);

/// Idle HTTP/1.1 connections to one upstream. A task watches each of them, and closes it when the upstream does or when it
/// has been idle for too long.
#[derive(Debug)]
pub(super) struct IdleConnections {
    /// Connections in the order of their serials, so that each is found by a binary search.
    idle: RefCell<VecDeque<Idle>>,
    tally: Rc<Tally>,
    /// Number of connections that may stay idle for longer than [`SURPLUS`].
    limit: usize,
    timeout: Duration,
    /// Age from which on a connection serves no further request; zero for any.
    max_age: Duration,
    serial: Cell<u64>,
    closed: Cell<bool>,
}

type Slot = Rc<RefCell<Option<Http1Connection>>>;

struct Idle {
    serial: u64,
    since: Instant,
    slot: Slot,
    watcher: AbortHandle,
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Idle({})", self.serial)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.watcher.abort();
        self.slot.borrow_mut().take();
    }
}

impl IdleConnections {
    pub(super) fn new(settings: &UpstreamSettings, tally: &Rc<Tally>) -> Rc<IdleConnections> {
        Rc::new(IdleConnections {
            idle: RefCell::default(),
            tally: Rc::clone(tally),
            limit: usize::try_from(settings.keepalive).unwrap_or(usize::MAX),
            timeout: settings.keepalive_timeout,
            max_age: settings.max_age,
            serial: Cell::new(0),
            closed: Cell::new(false),
        })
    }

    /// Returns the number of idle connections.
    pub(super) fn len(&self) -> usize {
        self.idle.borrow().len()
    }

    /// Closes all connections, and keeps none from now on.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.idle.borrow_mut().clear();
    }

    /// Returns the connection that was used last and is still open.
    pub(super) async fn take(&self) -> Option<Http1Connection> {
        std::future::poll_fn(|cx| {
            loop {
                let newest = self.idle.borrow_mut().pop_back();
                let Some(newest) = newest else {
                    return Poll::Ready(None);
                };
                let connection = newest.slot.borrow_mut().take();
                if let Some(mut connection) = connection {
                    if self.is_too_old(&connection) {
                        self.tally.count(|c| c.idle_dropped += 1);
                        continue;
                    }
                    connection.poll(cx);
                    if connection.is_ready() {
                        return Poll::Ready(Some(connection));
                    }
                }
                self.tally.count(|c| c.idle_closed += 1);
            }
        })
        .await
    }

    /// Keeps a connection whose exchange has ended, if it can serve another. If there are too many, it closes those that have
    /// been idle for the longest time, unless a burst has just left them.
    pub(super) async fn keep(self: &Rc<IdleConnections>, mut connection: Http1Connection) {
        // hyper notices the end of the exchange at the next poll.
        std::future::poll_fn(|cx| {
            connection.poll(cx);
            Poll::Ready(())
        })
        .await;
        if self.closed.get() || self.limit == 0 || !connection.is_ready() {
            return;
        }
        if self.is_too_old(&connection) {
            return self.tally.count(|c| c.idle_dropped += 1);
        }
        let slot = Rc::new(RefCell::new(Some(connection)));
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        let watcher = watch(Rc::clone(&slot), serial, self.timeout, Rc::downgrade(self));
        let watcher = tokio::task::spawn_local(watcher).abort_handle();
        let mut idle = self.idle.borrow_mut();
        let now = Instant::now();
        let is_late = |idle: &Idle| now.duration_since(idle.since) >= SURPLUS;
        while idle.len() >= self.limit && idle.front().is_some_and(is_late) {
            idle.pop_front();
            self.tally.count(|c| c.idle_dropped += 1);
        }
        idle.push_back(Idle {
            serial,
            since: now,
            slot,
            watcher,
        });
    }

    fn is_too_old(&self, connection: &Http1Connection) -> bool {
        !self.max_age.is_zero() && connection.age() >= self.max_age
    }

    /// Returns whether as many newer connections are idle as may be.
    fn is_surplus(&self, serial: u64) -> bool {
        let idle = self.idle.borrow();
        let not_newer = idle.partition_point(|idle| idle.serial <= serial);
        idle.len() - not_newer >= self.limit
    }

    fn forget(&self, serial: u64) {
        let mut idle = self.idle.borrow_mut();
        if let Ok(place) = idle.binary_search_by_key(&serial, |idle| idle.serial) {
            idle.remove(place);
        }
    }
}

impl Drop for IdleConnections {
    fn drop(&mut self) {
        self.close();
    }
}

/// Waits until the connection in `slot` is closed or `timeout` is over, or it is one too many after [`SURPLUS`]; then removes it.
async fn watch(slot: Slot, serial: u64, timeout: Duration, idle: Weak<IdleConnections>) {
    let mut closed = pin!(std::future::poll_fn(|cx| match &mut *slot.borrow_mut() {
        Some(connection) => {
            connection.poll(cx);
            if connection.is_ready() {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        }
        None => Poll::Ready(()),
    }));
    let first = timeout.min(SURPLUS);
    let mut is_closed = tokio::time::timeout(first, closed.as_mut()).await.is_ok();
    let is_needed = || idle.upgrade().is_some_and(|idle| !idle.is_surplus(serial));
    if !is_closed && is_needed() {
        is_closed = tokio::time::timeout(timeout - first, closed).await.is_ok();
    }
    slot.borrow_mut().take();
    let Some(idle) = idle.upgrade() else {
        return;
    };
    idle.tally.count(|c| {
        if is_closed {
            c.idle_closed += 1
        } else {
            c.idle_dropped += 1
        }
    });
    idle.forget(serial);
}
