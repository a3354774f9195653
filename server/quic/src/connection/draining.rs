//! The end of one connection: when a drain closes it, and when nothing is left to do for it.

use std::time::{Duration, Instant};

use sluicegate_base::clients::relief::CONNECTION;

use super::Connection;
use crate::activity::{Idle, Load};
use crate::application::Application;
use crate::counters::ExpiryReason;
use crate::expiry::Step;

impl<A: Application> Connection<A> {
    /// Closes it because the server has nothing more for it (`NO_ERROR`).
    pub(crate) fn close(&mut self) {
        let _ = self.quic.close(true, A::NO_ERROR, b"");
    }

    /// Closes it because memory is short (`EXCESSIVE_LOAD`). Returns whether it did.
    pub(crate) fn give_up(&mut self) -> bool {
        self.given_up = !self.has_ended() && self.quic.close(true, A::EXCESSIVE_LOAD, b"").is_ok();
        self.given_up
    }

    /// Returns since when it is open without a request; `None` in the handshake, while requests are open, and at its end.
    pub(crate) fn idle(&self) -> Option<Idle> {
        let is_open = !self.half_open && self.is_idle() && !self.has_ended();
        self.activity.idle().filter(|_| is_open)
    }

    /// Returns the memory that it holds, bytes.
    pub(crate) fn held(&self, shared: &A::Shared) -> u64 {
        let session = self.session.as_ref();
        let requests = session.map_or(0, |session| session.held(&self.quic, shared));
        CONNECTION + self.quic.unacked_bytes() + self.quic.unread_bytes() + requests
    }

    /// Returns whether nothing is left to do for it; asked once it has nothing to send. One whose handshake timed out and whose
    /// client never proved its address may not even send CONNECTION_CLOSE, and is not waited for. The memory of one that was given up
    /// is needed at once; packets that still come are responded to by stateless resets (RFC 9000 §10.2).
    pub(crate) fn is_over(&self) -> bool {
        let is_silent = self.handshake_timed_out && !self.quic.is_draining();
        self.quic.is_closed() || is_silent || self.given_up
    }

    /// Returns whether CONNECTION_CLOSE was sent or received; asked once it has nothing to send.
    pub(crate) fn has_ended(&self) -> bool {
        self.quic.is_closed() || self.quic.is_draining() || self.quic.local_error().is_some()
    }

    /// Returns whether it is counted among those that have ended, and counts it.
    pub(crate) fn count_end(&mut self) -> bool {
        std::mem::replace(&mut self.ended, true)
    }

    /// Announces to the client that no further request will be accepted (GOAWAY).
    pub fn drain(&mut self) {
        self.expiry.cancel();
        if let Some(session) = &mut self.session {
            session.drain(&mut self.quic);
        }
    }

    /// Notes that its client was told of the shutdown that began at `since`.
    pub(crate) fn shut_down(&mut self, since: Instant) {
        self.shut_down.get_or_insert(since);
    }

    /// Returns the start of the shutdown that its client was told of.
    pub(crate) fn shut_down_since(&self) -> Option<Instant> {
        self.shut_down
    }

    /// Tells the client to open another connection if this one is too old, or its session has had all its requests, and drains
    /// later. Returns why, once.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<ExpiryReason> {
        let session = self.session.as_ref();
        let used_up = session.is_some_and(A::is_leaving);
        match self.expiry.step(used_up, now)? {
            Step::Announce(reason) => {
                if let Some(session) = &mut self.session {
                    session.leave(&mut self.quic);
                }
                Some(reason)
            }
            Step::Drain => {
                self.drain();
                None
            }
        }
    }

    /// Begins its end because its listener was removed; its requests and tunnels get `limit` at most.
    pub(crate) fn retire(&mut self, limit: Duration, now: Instant) {
        self.expiry.retire(limit, now);
    }

    /// Returns the time at which the expired connection began to drain, if it has.
    pub(crate) fn expired_since(&self) -> Option<Instant> {
        self.expiry.since()
    }

    /// Notices when the last response has reached the client. The next request may be long in coming, so memory for more of
    /// them is freed.
    pub(crate) fn note_requests(&mut self, now: Instant) {
        let (taken, idle) = (self.taken(), self.is_idle());
        if self.activity.note(taken, idle, || self.quic.has_unacked(), now) {
            self.quic.release_memory();
            if let Some(session) = &mut self.session {
                session.release_memory();
            }
        }
    }

    /// Closes it if a drain that began at `since` need not wait for it, or plans the drain's next look. The drain asks after
    /// an attempt to send: what was lost and turns out to have arrived after all ends without a packet. Returns whether it
    /// was closed.
    pub(crate) fn finish(&mut self, since: Instant, now: Instant) -> bool {
        let load = Load {
            established: self.quic.is_established() || self.quic.is_in_early_data(),
            taken: self.taken(),
            idle: self.is_idle(),
            unacked: self.quic.has_unacked(),
        };
        let finishes = self.activity.finishes_at(load, since, now);
        let has_tunnel = self.session.as_ref().is_some_and(A::has_tunnel);
        let end = self.expiry.end(has_tunnel, now);
        self.finishes = finishes.into_iter().chain(end).min();
        let closed = self.finishes.is_some_and(|at| at <= now);
        if closed {
            self.finishes = None;
            self.close();
        }
        closed
    }

    fn taken(&self) -> u64 {
        self.session.as_ref().map_or(0, A::taken)
    }

    fn is_idle(&self) -> bool {
        self.session.as_ref().is_none_or(A::is_idle)
    }
}
