//! Idle connections to one upstream.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::replace;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep, sleep_until};

use super::connection::Http1Connection;
use crate::proxy::counters::Tally;
use crate::proxy::definition::UpstreamSettings;

/// Time for which a connection beyond the limit stays idle: the next burst of requests finds it.
pub(in crate::proxy) const SURPLUS: Duration = Duration::from_secs(5);
/// Pause of the task that watches idle connections before each sweep. Most connections of a busy server are in use again by
/// then, and cost no watching.
pub(in crate::proxy) const PAUSE: Duration = Duration::from_millis(250);

/// Idle HTTP/1.1 connections to one upstream. A task watches them, and closes those that the upstream has closed or that have
/// been idle for too long.
#[derive(Debug)]
pub(in crate::proxy) struct IdleConnections {
    /// Connections by the time at which they became idle, the oldest first.
    idle: RefCell<VecDeque<Idle>>,
    tally: Rc<Tally>,
    /// Number of connections that may stay idle for longer than [`SURPLUS`].
    limit: usize,
    timeout: Duration,
    /// Age from which on a connection serves no further request; zero for any.
    max_age: Duration,
    /// Task that watches the connections; there is one while there are any.
    watcher: RefCell<Option<AbortHandle>>,
    /// Waker of the watcher while it waits for something to happen.
    parked: RefCell<Option<Waker>>,
    closed: Cell<bool>,
}

struct Idle {
    connection: Box<Http1Connection>,
    since: Instant,
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Idle({:?})", self.since)
    }
}

impl IdleConnections {
    pub(in crate::proxy) fn new(
        settings: &UpstreamSettings,
        tally: &Rc<Tally>,
    ) -> Rc<IdleConnections> {
        Rc::new(IdleConnections {
            idle: RefCell::default(),
            tally: Rc::clone(tally),
            limit: usize::try_from(settings.keepalive).unwrap_or(usize::MAX),
            timeout: settings.keepalive_timeout,
            max_age: settings.max_age,
            watcher: RefCell::default(),
            parked: RefCell::default(),
            closed: Cell::new(false),
        })
    }

    /// Returns the number of idle connections.
    pub(in crate::proxy) fn len(&self) -> usize {
        self.idle.borrow().len()
    }

    /// Closes all connections, and keeps none from now on.
    pub(in crate::proxy) fn close(&self) {
        self.closed.set(true);
        self.idle.borrow_mut().clear();
        if let Some(watcher) = self.watcher.take() {
            watcher.abort();
        }
    }

    /// Returns the connection that was used last and is still open.
    pub(in crate::proxy) async fn take(&self) -> Option<Box<Http1Connection>> {
        if self.idle.borrow().is_empty() {
            return None;
        }
        let now = Instant::now();
        // Beyond the budget of a task, a connection would look open although the upstream has closed it.
        unconstrained(std::future::poll_fn(|cx| {
            loop {
                let newest = self.idle.borrow_mut().pop_back();
                let Some(mut newest) = newest else {
                    return Poll::Ready(None);
                };
                let idle = now.saturating_duration_since(newest.since);
                if idle >= self.timeout || self.is_too_old(&newest.connection, now) {
                    self.tally.count(|c| c.idle_dropped += 1);
                    continue;
                }
                newest.connection.resume(cx);
                if newest.connection.is_ready() {
                    return Poll::Ready(Some(newest.connection));
                }
                self.tally.count(|c| c.idle_closed += 1);
            }
        }))
        .await
    }

    /// Keeps a connection whose exchange has ended, if it can serve another. If there are too many, it closes those that have
    /// been idle for the longest time, unless a burst has just left them.
    pub(in crate::proxy) fn keep(self: &Rc<IdleConnections>, mut connection: Box<Http1Connection>) {
        connection.rest();
        if self.closed.get() || self.limit == 0 || !connection.is_ready() {
            return;
        }
        let now = Instant::now();
        if self.is_too_old(&connection, now) {
            return self.tally.count(|c| c.idle_dropped += 1);
        }
        let mut idle = self.idle.borrow_mut();
        self.close_surplus(&mut idle, self.limit - 1, now);
        idle.push_back(Idle { connection, since: now });
        let parked = self.parked.take();
        if let Some(waker) = parked {
            waker.wake();
        }
        let mut watcher = self.watcher.borrow_mut();
        if watcher.is_none() {
            let task = tokio::task::spawn_local(watch(Rc::downgrade(self)));
            *watcher = Some(task.abort_handle());
        }
    }

    fn is_too_old(&self, connection: &Http1Connection, now: Instant) -> bool {
        !self.max_age.is_zero() && connection.age(now) >= self.max_age
    }

    /// Closes connections that have been idle for [`SURPLUS`] while more than `limit` are idle.
    fn close_surplus(&self, idle: &mut VecDeque<Idle>, limit: usize, now: Instant) {
        let is_late = |idle: &Idle| now.duration_since(idle.since) >= SURPLUS;
        while idle.len() > limit && idle.front().is_some_and(is_late) {
            idle.pop_front();
            self.tally.count(|c| c.idle_dropped += 1);
        }
    }

    /// Closes connections that the upstream has closed or that have been idle for too long; when something arrives on another,
    /// the caller is woken. Returns the time at which the next has been idle for too long; `None` if there is none.
    fn sweep(&self, cx: &mut Context<'_>) -> Option<Instant> {
        let now = Instant::now();
        let mut idle = self.idle.borrow_mut();
        self.close_surplus(&mut idle, self.limit, now);
        while idle.front().is_some_and(|oldest| now - oldest.since >= self.timeout) {
            idle.pop_front();
            self.tally.count(|c| c.idle_dropped += 1);
        }
        idle.retain_mut(|idle| {
            idle.connection.watch(cx);
            let is_open = idle.connection.is_ready();
            if !is_open {
                self.tally.count(|c| c.idle_closed += 1);
            }
            is_open
        });
        let Some(oldest) = idle.front() else {
            self.watcher.take();
            return None;
        };
        let limit = if idle.len() > self.limit { SURPLUS.min(self.timeout) } else { self.timeout };
        Some(oldest.since + limit)
    }
}

impl Drop for IdleConnections {
    fn drop(&mut self) {
        self.close();
    }
}

/// Sweeps the connections whenever one becomes idle, something arrives on one, or one has been idle for too long, but not
/// more often than each [`PAUSE`]. Ends when no connection is idle.
async fn watch(connections: Weak<IdleConnections>) {
    loop {
        sleep(PAUSE).await;
        let mut deadline = None;
        unconstrained(std::future::poll_fn(|cx| {
            if let Some(connections) = connections.upgrade() {
                deadline = connections.sweep(cx);
                *connections.parked.borrow_mut() = Some(cx.waker().clone());
            }
            Poll::Ready(())
        }))
        .await;
        let Some(deadline) = deadline else {
            return;
        };
        let mut expired = pin!(sleep_until(deadline));
        let mut is_woken = false;
        std::future::poll_fn(|cx| {
            if replace(&mut is_woken, true) {
                return Poll::Ready(());
            }
            expired.as_mut().poll(cx)
        })
        .await;
    }
}
