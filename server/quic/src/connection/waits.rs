//! What the connection waits for.

use std::time::{Duration, Instant};

use quiche::SendLimit;
use sluicegate_base::observe::account::{Account, Wait};

use super::Connection;
use crate::application::{Application, Output};

/// Shortest time in a queue that counts as scheduling; a shorter one counts for the wait before it.
const QUEUED: Duration = Duration::from_millis(1);

/// Waits at a rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    /// What it waited for until now.
    pub(crate) before: Wait,
    /// What it waits for from now on.
    pub(crate) wait: Wait,
}

impl<A: Application> Connection<A> {
    /// Returns the account of its time.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Notes that it was queued for service or emission.
    pub(crate) fn note_queued(&mut self, now: Instant) {
        self.queued.get_or_insert(now);
    }

    /// Accounts for its time in a queue, at the beginning of its turn.
    pub(crate) fn note_turn(&mut self, now: Instant) {
        if let Some(queued) = self.queued
            && queued != now
            && queued + QUEUED <= now
        {
            self.enter(Wait::Scheduling, queued);
        }
    }

    /// Notes that there is no room in its socket.
    pub(crate) fn note_full_socket(&mut self, now: Instant) {
        self.enter(Wait::Scheduling, now);
    }

    /// Notes what it waits for now that it has nothing to send. Returns that, and what it waited for before.
    pub(crate) fn note_rest(&mut self, now: Instant) -> Rest {
        self.queued = None;
        let (before, _) = self.account.wait();
        let wait = self.waits_for();
        self.enter(wait, now);
        Rest { before, wait }
    }

    fn enter(&mut self, wait: Wait, from: Instant) {
        let (before, since) = self.account.wait();
        if wait != before {
            if self.trace.is_some() {
                self.trace_wait(wait, from.max(since));
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.wait(wait, from.max(since));
            }
        }
        self.account.enter(wait, from);
        // The client has all that there was, and more is to come: neither it nor the path is late.
        if (before, wait) == (Wait::Acknowledgement, Wait::Application) {
            self.account.note_progress(from);
        }
    }

    /// Returns the client's flow control where that limits the rate, and pacing only spreads what it allows.
    fn flow_limit(&self, session: &A) -> Option<Wait> {
        if session.output() != Output::Waiting || !self.quic.is_window_spare() {
            return None;
        }
        Some(if self.quic.is_credit_used() { Wait::ConnectionFlow } else { Wait::StreamFlow })
    }

    fn waits_for(&self) -> Wait {
        if self.quic.local_error().is_some() || self.quic.is_draining() {
            return Wait::Closing;
        }
        let Some(session) = &self.session else {
            return match self.quic.send_limit() {
                Some(SendLimit::Amplification) => Wait::Amplification,
                _ => Wait::Handshake,
            };
        };
        if self.quic.unsent() == 0 {
            match session.output() {
                Output::Waiting | Output::Buffered => {}
                Output::Unacknowledged => return Wait::Acknowledgement,
                Output::Nothing if self.quic.has_unacked() => return Wait::Acknowledgement,
                Output::Nothing if session.is_idle() => return Wait::Client,
                Output::Nothing => return Wait::Application,
            }
        }
        if self.release.is_some() {
            return self.flow_limit(session).unwrap_or(Wait::Pacing);
        }
        match self.quic.send_limit() {
            Some(SendLimit::Amplification) => Wait::Amplification,
            Some(SendLimit::CongestionWindow) => Wait::Congestion,
            Some(SendLimit::ConnectionFlowControl) => Wait::ConnectionFlow,
            None => Wait::StreamFlow,
        }
    }
}
