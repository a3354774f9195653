//! What the connection waits for.

use std::time::Instant;

use quiche::SendLimit;
use sluicegate_base::observe::account::{Account, Wait};

use super::Connection;
use crate::application::Application;

impl<A: Application> Connection<A> {
    /// Returns the account of its time.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Notes what it waits for now that it has nothing to send.
    pub(crate) fn note_rest(&mut self, now: Instant) {
        self.account.enter(self.waits_for(), now);
    }

    /// Notes that it waits for its turn or for room in the socket.
    pub(crate) fn note_scheduling(&mut self, now: Instant) {
        self.account.enter(Wait::Scheduling, now);
    }

    fn waits_for(&self) -> Wait {
        if self.quic.local_error().is_some() || self.quic.is_draining() {
            return Wait::Closing;
        }
        if self.release.is_some() {
            return Wait::Pacing;
        }
        if self.half_open && !self.quic.is_established() {
            let limit = self.quic.send_limit();
            let is_amplified = limit == Some(SendLimit::Amplification);
            return if is_amplified { Wait::Amplification } else { Wait::Handshake };
        }
        let has_output = self.session.as_ref().is_some_and(A::has_output);
        if has_output || self.quic.unsent() > 0 {
            return match self.quic.send_limit() {
                Some(SendLimit::Amplification) => Wait::Amplification,
                Some(SendLimit::CongestionWindow) => Wait::Congestion,
                Some(SendLimit::ConnectionFlowControl) => Wait::ConnectionFlow,
                None => Wait::StreamFlow,
            };
        }
        if self.is_idle() { Wait::Client } else { Wait::Application }
    }
}
