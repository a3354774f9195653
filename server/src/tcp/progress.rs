//! What a connection reads in a turn, and whether it achieves anything by what it sends.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Bytes that a connection reads in a turn at most, before all other tasks of the thread have theirs.
const TURN: u64 = 64 << 10;
/// The same while it achieves nothing: about as much work as a request.
const LITTLE: u64 = 2 << 10;
/// Bytes that each read costs beside those that it brings: clients may send records of a byte.
const READ: u64 = 64;
/// Credit of a new connection, bytes.
const FIRST: i64 = 64 << 10;
/// Most credit that a connection may have earned, bytes.
const MOST: i64 = 256 << 10;
/// Credit that a request earns beside the size of its head, bytes: a few frames.
const REQUEST: u64 = 4 << 10;
/// Credit that a block of a response earns, bytes: a client returns windows for it, on the stream and on the connection.
const BLOCK: u64 = 64;
/// The same by its length: one byte for each so many.
const SENT_PER_BYTE: u64 = 64;
/// Credit that each byte of a request's body earns: as much again as itself, for what frames it.
const RECEIVED: u64 = 2;
/// Credit that a connection earns by waiting, bytes a second.
const PER_SECOND: u64 = 64 << 10;
/// First pause of a connection without credit on an overloaded thread. Each further one is twice as long, unless the connection has
/// achieved something since.
const PAUSE: Duration = Duration::from_millis(20);
/// Times that the pauses double.
const DOUBLED: u32 = 6;
/// Pauses after which the connection is closed: about six seconds.
const PAUSES: u32 = 10;

/// Account of what a connection may send without achieving anything, and of its turn.
///
/// Requests, their bodies and the responses that they cause earn credit. PINGs, settings, windows, unknown frames, and what frames
/// bodies in tiny parts, earn none.
#[derive(Debug)]
pub(super) struct Progress {
    credit: Cell<i64>,
    /// Time for which it got credit; `None` before the first turn.
    since: Cell<Option<Instant>>,
    /// Bytes that it may still read in this turn.
    left: Cell<u64>,
    /// Pauses since it last achieved something.
    pauses: Cell<u32>,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            credit: Cell::new(FIRST),
            since: Cell::new(None),
            left: Cell::new(0),
            pauses: Cell::new(0),
        }
    }
}

impl Progress {
    /// Begins a turn.
    pub(super) fn begin_turn(&self, now: Instant) {
        let since = self.since.get().unwrap_or(now);
        let waited = now.saturating_duration_since(since).as_millis();
        let waited = u64::try_from(waited).unwrap_or(u64::MAX);
        if waited > 0 || self.since.get().is_none() {
            self.since.set(Some(now));
            self.earn(waited.saturating_mul(PER_SECOND) / 1000);
        }
        self.left.set(if self.is_in_credit() { TURN } else { LITTLE });
    }

    /// Returns whether the connection may send what achieves nothing.
    pub(super) fn is_in_credit(&self) -> bool {
        self.credit.get() > 0
    }

    /// Returns the bytes that the next read may bring; 0 where the turn is over.
    pub(super) fn allowance(&self) -> u64 {
        self.left.get()
    }

    /// Counts a read.
    pub(super) fn on_read(&self, count: u64) {
        let cost = count + READ;
        self.left.set(self.left.get().saturating_sub(cost));
        let credit = self.credit.get().saturating_sub_unsigned(cost);
        self.credit.set(credit.max(-MOST));
    }

    /// Counts a request.
    pub(super) fn on_request(&self) {
        self.achieve(REQUEST);
    }

    /// Counts the head of a request that is served: many clients have large cookies.
    pub(super) fn on_head(&self, size: u64) {
        self.achieve(size);
    }

    /// Counts a block of a response that was taken.
    pub(super) fn on_sent(&self, count: u64) {
        self.achieve(BLOCK + count / SENT_PER_BYTE);
    }

    /// Counts a block of a request's body.
    pub(super) fn on_received(&self, count: u64) {
        self.achieve(count.saturating_mul(RECEIVED));
    }

    /// Begins a pause, and returns how long it takes; `None` if the connection has had too many in vain.
    pub(super) fn next_pause(&self) -> Option<Duration> {
        let before = self.pauses.get();
        self.pauses.set(before.saturating_add(1));
        (before < PAUSES).then(|| PAUSE * 2_u32.pow(before.min(DOUBLED)))
    }

    fn achieve(&self, bytes: u64) {
        self.earn(bytes);
        if self.is_in_credit() {
            self.pauses.set(0);
        }
    }

    fn earn(&self, bytes: u64) {
        let credit = self.credit.get().saturating_add_unsigned(bytes);
        self.credit.set(credit.min(MOST));
    }
}

#[cfg(test)]
mod tests;
