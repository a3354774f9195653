//! One turn of a worker, always in the same order, each step with a budget.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_dataplane::{Budget, Dataplane, Driver};

use super::mailbox::{Command, Mailbox, MailboxSender};
use super::{Report, WorkerStats};
use crate::clock;
use crate::quic::counters::DropReason;
use crate::quic::endpoint::{Endpoint, Ingest};

/// Received datagrams and bytes per turn.
const RECEIVE_BUDGET: Budget = Budget::new(1024, 1 << 20);
/// Timers per turn.
const TIMER_BUDGET: usize = 1024;
/// Transmitted datagrams and bytes per turn.
const TRANSMIT_BUDGET: Budget = Budget::new(1024, 1 << 20);
/// Messages of the origin thread per turn.
const ORIGIN_BUDGET: usize = 1024;
/// Letters per turn.
const MAILBOX_BUDGET: usize = 256;
/// Rounds of transmission in which a worker that stops says its last words.
const LAST_ROUNDS: usize = 1000;
/// How long such a round waits for a socket that is full.
const LAST_WAIT: Duration = Duration::from_millis(1);
/// How often a draining worker looks for connections that have finished.
const DRAIN_STEP: Duration = Duration::from_millis(20);

/// A running worker.
pub(super) struct Worker {
    driver: Driver,
    endpoint: Endpoint,
    inbox: Mailbox,
    peers: Arc<Vec<MailboxSender>>,
    stopping: bool,
    /// When it last looked for connections that a drain may close.
    looked: Option<Instant>,
}

impl Worker {
    pub(super) fn new(
        driver: Driver,
        endpoint: Endpoint,
        inbox: Mailbox,
        peers: Arc<Vec<MailboxSender>>,
    ) -> Self {
        Self {
            driver,
            endpoint,
            inbox,
            peers,
            stopping: false,
            looked: None,
        }
    }

    /// Turns until it is told to stop, or has drained. A broken driver takes the process down: half a server is worse.
    pub(super) fn run(&mut self) {
        loop {
            let now = clock::now();
            quiche::clock::set(Some(now));
            if let Err(error) = self.turn(now) {
                panic!("the dataplane failed for good: {error}");
            }
            if self.stopping {
                return;
            }
        }
    }

    /// The last report.
    pub(super) fn stopped(self) -> Report {
        let datagrams = Box::new(self.driver.counters());
        Report::Stopped(Box::new(self.endpoint.counters), datagrams)
    }

    fn turn(&mut self, now: Instant) -> std::io::Result<()> {
        self.receive(now)?;
        self.endpoint.on_deadline(TIMER_BUDGET, now);
        self.read_mailbox(now);
        let more = self.endpoint.on_origin(ORIGIN_BUDGET, now);
        let looks = self.endpoint.is_draining() && (self.stopping || self.is_time_to_look(now));
        if looks {
            self.endpoint.close_idle(self.stopping, now);
        }
        let more = self.transmit(now)? || more;
        self.endpoint.flush_log();
        self.endpoint.flush_origin();
        if looks && self.endpoint.is_drained() {
            self.stopping = true;
        }
        if self.stopping {
            return self.say_last_words(now);
        }
        let timeout = match more {
            true => Some(Duration::ZERO),
            false => self.timeout(),
        };
        self.driver.wait(timeout)
    }

    /// Whether the last look is a step ago. A look is at every connection.
    fn is_time_to_look(&mut self, now: Instant) -> bool {
        let due =
            { self.looked }.is_none_or(|last| now.saturating_duration_since(last) >= DRAIN_STEP);
        if due {
            self.looked = Some(now);
        }
        due
    }

    fn receive(&mut self, now: Instant) -> std::io::Result<()> {
        let Self {
            driver,
            endpoint,
            peers,
            ..
        } = self;
        let unix = clock::unix();
        driver.receive(RECEIVE_BUDGET, |meta, datagram| {
            if let Ingest::Misrouted(worker) = endpoint.ingest(meta, datagram, now, unix)
                && let Some(peer) = peers.get(usize::from(worker))
                && !peer.send(Command::Misrouted(*meta, datagram.to_vec()))
            {
                endpoint.counters.on_drop(DropReason::MailboxFull);
            }
        })?;
        Ok(())
    }

    fn read_mailbox(&mut self, now: Instant) {
        for _ in 0..MAILBOX_BUDGET {
            match self.inbox.take() {
                // A datagram is handed over once: if it belongs to nobody here, it is dropped.
                Some(Command::Misrouted(meta, mut datagram)) => {
                    self.endpoint
                        .ingest(&meta, &mut datagram, now, clock::unix());
                }
                Some(Command::Drain) => self.endpoint.drain(now),
                Some(Command::Adopt(snapshot)) => {
                    // It was tried before it was sent.
                    if let Err(error) = self.endpoint.adopt(&snapshot) {
                        tracing::error!(%error, snapshot = snapshot.generation, "this worker stays with its configuration");
                    }
                }
                Some(Command::Stop) => {
                    self.endpoint.drain(now);
                    self.stopping = true;
                }
                Some(Command::Stats(answer)) => {
                    // Whoever asked may have given up.
                    let _ = answer.send(Box::new(self.stats()));
                }
                None => return,
            }
        }
    }

    fn stats(&self) -> WorkerStats {
        WorkerStats {
            backend: self.driver.backend(),
            endpoint: self.endpoint.counters.clone(),
            datagrams: self.driver.counters(),
            gauges: self.endpoint.gauges(),
            origin: self.endpoint.origin_depth(),
        }
    }

    /// Sends what may leave now. Returns whether there may be more to send at once.
    fn transmit(&mut self, now: Instant) -> std::io::Result<bool> {
        let Self {
            driver, endpoint, ..
        } = self;
        driver.transmit(TRANSMIT_BUDGET, |out| endpoint.emit(out, now))
    }

    /// Sends what is left to say to clients that were told nothing yet.
    fn say_last_words(&mut self, now: Instant) -> std::io::Result<()> {
        for _ in 0..LAST_ROUNDS {
            if !self.endpoint.has_ready() {
                break;
            }
            if !self.transmit(now)? {
                self.driver.wait(Some(LAST_WAIT))?;
            }
        }
        Ok(())
    }

    /// How long there is nothing to do.
    fn timeout(&self) -> Option<Duration> {
        let next = self.endpoint.next_deadline();
        let timeout = next.map(|at| at.saturating_duration_since(clock::now()));
        if self.endpoint.is_draining() {
            return Some(timeout.unwrap_or(DRAIN_STEP).min(DRAIN_STEP));
        }
        timeout
    }
}

#[cfg(test)]
mod tests;
