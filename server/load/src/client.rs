//! A connection: sends requests and reads responses, over QUIC or TCP.

pub(crate) mod connector;
mod ending;
mod exchanges;
#[cfg(test)]
mod pair;
pub(crate) mod quic;
mod sessions;
mod tcp;
pub(crate) mod transport;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use crate::context::Context;
use crate::end::End;
use crate::poller::Watch;
use crate::request::{OpenRequest, Work};
use exchanges::Exchanges;
use transport::Transport;

/// A connection with a socket of its own.
pub(crate) struct LoadClient {
    exchanges: Exchanges,
    transport: Box<dyn Transport>,
    /// Index of the server's address.
    pub(crate) address: usize,
}

impl LoadClient {
    /// Begins to use a transport that has started its handshake.
    fn new(
        transport: impl Transport + 'static,
        address: usize,
        work: &Work,
        cx: &mut Context<'_>,
    ) -> LoadClient {
        cx.handshaking += 1;
        let peer = cx.plan.addresses[address];
        LoadClient {
            exchanges: Exchanges::new(peer, work, cx.now),
            transport: Box::new(transport),
            address,
        }
    }

    /// Returns whether another request can be sent now.
    pub(crate) fn has_room(&self, cx: &Context<'_>) -> bool {
        let exchanges = &self.exchanges;
        exchanges.may_send(cx) && self.transport.has_room(exchanges.open.len())
    }

    /// Sends the next request, whose latency counts from `start`. Returns whether there was room for it.
    pub(crate) fn submit(&mut self, start: Instant, cx: &mut Context<'_>) -> bool {
        let head = self.exchanges.work.next_head;
        let sent = self.send_request(OpenRequest::new(start, head), cx);
        if sent {
            self.exchanges.work.next_head = (head + 1) % cx.plan.heads.len();
            cx.count_started(start);
        }
        sent
    }

    /// Sends a request. Returns whether there was room for it.
    pub(crate) fn send_request(&mut self, request: OpenRequest, cx: &Context<'_>) -> bool {
        let sent = self.transport.send(&request, cx);
        if let Some(stream) = sent {
            self.exchanges.open.insert(stream, request);
        } else {
            // No room, or the connection is closing, which service notices.
            self.exchanges.stuck = true;
        }
        sent.is_some()
    }

    /// Returns the requests that are to be sent by another connection, or by this one later.
    pub(crate) fn work(&mut self) -> &mut Work {
        &mut self.exchanges.work
    }

    /// Takes the requests that are to be sent by another connection in its place, once this one has ended. Those of early data without
    /// a handshake are among them.
    pub(crate) fn take_work(&mut self) -> Work {
        self.exchanges.take_back();
        std::mem::take(&mut self.exchanges.work)
    }

    /// Returns the times from which the latencies of its open requests count, and of those that it has to send again.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Instant> {
        self.exchanges.waiting()
    }

    /// Does all that can be done now: reads responses, sends requests and packets. Returns the connection's end, if it has come.
    pub(crate) fn service(&mut self, cx: &mut Context<'_>) -> Option<End> {
        loop {
            self.transport.process(&mut self.exchanges, cx);
            self.fill(cx);
            let done = self.exchanges.is_done();
            if done {
                self.transport.close();
            }
            if let Err(end) = self.transport.flush(&mut self.exchanges, cx) {
                return Some(end);
            }
            if done {
                return Some(End::Done);
            }
            if self.exchanges.going_away && self.exchanges.open.is_empty() {
                return Some(self.exchanges.gone_away());
            }
            let end = self.transport.end(&self.exchanges);
            if end.is_some() || !self.transport.is_awake() {
                return end;
            }
            // What it did took its time, which belongs to the latencies of what comes next.
            cx.tick();
        }
    }

    /// Sends requests as far as its pace allows.
    fn fill(&mut self, cx: &mut Context<'_>) {
        while !self.exchanges.work.is_empty() && self.has_room(cx) && self.exchanges.is_due(cx.now)
        {
            let sent = match self.exchanges.work.again.front().copied() {
                Some(request) => self.send_request(request, cx),
                None => self.submit(cx.now, cx),
            };
            if !sent {
                return;
            }
            self.exchanges.on_sent(cx.now);
        }
    }

    /// Returns the time at which [`Client::on_timer`] has to be called.
    pub(crate) fn deadline(&self, cx: &Context<'_>) -> Option<Instant> {
        let due = self.exchanges.next_at();
        let due = due.filter(|_| !self.exchanges.work.is_empty() && self.has_room(cx));
        let timers = [self.transport.deadline(), due, self.exchanges.closes_at(cx)];
        timers.into_iter().flatten().min()
    }

    /// Runs what is due. Returns the connection's end, if that is its timeout.
    pub(crate) fn on_timer(&mut self, cx: &mut Context<'_>) -> Option<End> {
        if self.exchanges.closes_at(cx).is_some_and(|at| at <= cx.now) {
            self.transport.close();
            // It ends in either case.
            let _ = self.transport.flush(&mut self.exchanges, cx);
            return Some(End::TimedOut);
        }
        self.exchanges.stuck = false;
        self.transport.on_timer(cx.now);
        None
    }

    /// Receives what a system call finds.
    ///
    /// # Errors
    /// The server's port is closed.
    pub(crate) fn receive(&mut self, cx: &mut Context<'_>) -> Result<(), End> {
        self.exchanges.stuck = false;
        self.transport.receive(&mut self.exchanges, cx)
    }

    /// Returns the events of its socket to watch for.
    pub(crate) fn watch(&self) -> Watch {
        self.transport.watch()
    }
}

impl AsFd for LoadClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.socket()
    }
}
