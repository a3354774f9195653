//! The place of one response among those of its connection.

use std::time::{Duration, Instant};

use sluicegate_base::clock;

use super::priority::{LOWEST, Parameters, Priority};

/// Length beyond which a response shares from its first byte, bytes.
const LONGEST_IN_ORDER: u64 = 2 << 20;

/// Bytes after which a response shares if its length is not known.
const LONGEST_BURST: u64 = 512 << 10;

/// Time without anything to write after which the burst of a response is over.
const PAUSE: Duration = Duration::from_secs(1);

/// Place of a response, and what decides about it.
#[derive(Debug)]
pub(super) struct Schedule {
    place: Priority,
    /// Priority by the request's field, or by the client's last update.
    requested: Priority,
    /// Parameters of the response, which take precedence.
    replied: Parameters,
    kind: Kind,
    /// Bytes of the body before the burst.
    burst_start: u64,
    /// Time since which there has been nothing to write.
    idle_since: Option<Instant>,
    /// Bytes that the connection had written when the response last wrote, or began to wait.
    waits_from: u64,
}

/// Reason why a response shares or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It keeps to the order of priorities.
    Ordered,
    /// Its length is known to be so large that others would wait long.
    Bulk,
    /// It has written so much without a pause.
    Burst,
    /// Others have written for so long that it must have its share.
    Overdue,
}

impl Schedule {
    /// Returns the place of a request that has arrived.
    pub(super) fn new(now: Instant) -> Schedule {
        Schedule {
            place: Priority::default(),
            requested: Priority::default(),
            replied: Parameters::default(),
            kind: Kind::Ordered,
            burst_start: 0,
            idle_since: Some(now),
            waits_from: 0,
        }
    }

    /// Returns the place in the queue.
    pub(super) fn place(&self) -> Priority {
        self.place
    }

    /// Returns the place in the order, which the response has unless it shares.
    pub(super) fn ordered_place(&self) -> Priority {
        self.replied.over(self.requested)
    }

    /// Returns whether the response shares because it had waited too long.
    pub(super) fn is_overdue(&self) -> bool {
        self.kind == Kind::Overdue
    }

    /// Returns the urgency that counts among those that share.
    pub(super) fn urgency(&self) -> u8 {
        match self.kind {
            Kind::Overdue => LOWEST,
            Kind::Ordered | Kind::Bulk | Kind::Burst => self.ordered_place().urgency,
        }
    }

    /// Takes a priority of the client. One that has waited too long begins anew.
    pub(super) fn request(&mut self, priority: Priority) {
        self.requested = priority;
        if self.kind == Kind::Overdue {
            self.kind = Kind::Ordered;
        }
        self.settle();
    }

    /// Takes the parameters of the response (RFC 9218 §8).
    pub(super) fn reply(&mut self, parameters: Parameters) {
        self.replied = parameters;
        self.settle();
    }

    /// Takes the length of the body, if it is known before the first byte.
    pub(super) fn set_length(&mut self, length: u64) {
        if length > LONGEST_IN_ORDER {
            self.set_kind(Kind::Bulk);
        }
    }

    /// Lets the response share, or keep to the order.
    pub(super) fn set_kind(&mut self, kind: Kind) {
        self.kind = kind;
        self.settle();
    }

    fn settle(&mut self) {
        self.place = match self.kind {
            Kind::Ordered => self.ordered_place(),
            Kind::Bulk | Kind::Burst | Kind::Overdue => Priority::SHARED,
        };
    }

    /// Notes that there is something to write, after `sent` bytes of the body and `written` bytes of the connection. Returns whether
    /// the response keeps to the order again, because it had nothing to write for long.
    pub(super) fn resume(&mut self, now: Instant, sent: u64, written: u64) -> bool {
        let Some(since) = self.idle_since.take() else {
            return false;
        };
        self.waits_from = written;
        if clock::between(since, now) < PAUSE {
            return false;
        }
        self.burst_start = sent;
        let returns = matches!(self.kind, Kind::Burst | Kind::Overdue);
        if returns {
            self.kind = Kind::Ordered;
            self.settle();
        }
        returns
    }

    /// Notes that there is nothing to write for the moment.
    pub(super) fn pause(&mut self, now: Instant) {
        self.idle_since.get_or_insert(now);
    }

    /// Notes that the response has written, which makes `sent` bytes of its body and `written` bytes of the connection. Returns
    /// whether it is a burst that must share from now on.
    pub(super) fn on_written(&mut self, sent: u64, written: u64, is_length_known: bool) -> bool {
        self.waits_from = written;
        self.kind == Kind::Ordered && !is_length_known && sent - self.burst_start > LONGEST_BURST
    }

    /// Returns how many bytes the connection had written when the response last wrote, or began to wait.
    pub(super) fn waits_from(&self) -> u64 {
        self.waits_from
    }
}
