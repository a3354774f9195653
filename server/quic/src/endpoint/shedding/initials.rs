//! Decides which share of Initial packets the kernel is to pass to a worker that receives far more than it can respond to.
//!
//! A worker sends Retry packets and refusals up to a rate, and drops the Initials beyond it. If those are many, reading them alone
//! takes all of its time, and the socket's buffer overflows with its connections' datagrams in it. So it counts, in windows of
//! 100 ms, the Initials that arrive and those that come to nothing. If the latter are too many in two windows in a row, the kernel
//! passes only a share of all, so that a quarter more arrive than the worker responds to. What clients send is estimated as what
//! arrives, divided by the share that passes; so the end of the flood shows.

use std::time::{Duration, Instant};

use sluicegate_dataplane::{CidMark, InitialFilter, RxMeta};

use crate::application::Application;
use crate::counters::DropReason;
use crate::endpoint::Endpoint;
use crate::header::{Header, HeaderKind};

/// Time over which Initials are counted.
const WINDOW: Duration = Duration::from_millis(100);
/// Initials a second that are no flood: a crowd of clients sends no more.
const TOLERATED: u64 = 50_000;
/// Windows in a row with more than these, after which the kernel drops some. One alone may be a burst.
const STRAINED: u8 = 2;
/// Windows in a row with few enough Initials, after which the flood has ended.
const CALM: u8 = 10;
/// Smallest share. A flood that the filter does not see, within batches of GRO, takes from other new clients no more than that.
const LEAST_SHARE: u32 = ALL / 64;
const ALL: u32 = InitialFilter::ALL;

/// Sender of an Initial, by the connection ID that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::endpoint) enum Sender {
    /// It is to a connection ID of this process, which the sender has received in a Retry packet, or guesses.
    Known,
    /// It is to any other.
    Unknown,
}

/// Shares of Initials that pass, in parts of [`InitialFilter::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialShares {
    /// Share of Initials to connection IDs of this process.
    pub known: u32,
    /// Share of all other Initials.
    pub unknown: u32,
}

impl InitialShares {
    /// Returns the filter that passes these shares, for a process whose connection IDs have `mark`; `None` if all pass.
    pub(in crate::endpoint) fn filter(self, mark: Option<CidMark>) -> Option<InitialFilter> {
        let InitialShares { known, unknown } = self;
        (known.min(unknown) < ALL).then_some(InitialFilter { known, unknown, mark })
    }
}

impl Default for InitialShares {
    fn default() -> InitialShares {
        InitialShares { known: ALL, unknown: ALL }
    }
}

/// Change at the end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A flood begins; clients send so many Initials a second.
    Begins(u64),
    /// Other shares are to pass.
    Shares,
    /// The flood has ended, and all Initials pass.
    Ends,
}

/// Control of the shares.
#[derive(Debug)]
pub(in crate::endpoint) struct InitialControl {
    known: Class,
    unknown: Class,
    /// Time at which the window began.
    began: Instant,
    /// Whether the backend can drop Initials.
    works: bool,
}

impl InitialControl {
    /// Returns the control of a worker that may send so many Retry packets a second, and lets all Initials pass.
    pub(in crate::endpoint) fn new(retries_per_second: u64, now: Instant) -> InitialControl {
        let tolerated = retries_per_second.max(TOLERATED);
        InitialControl {
            known: Class::new(tolerated),
            unknown: Class::new(tolerated),
            began: now,
            works: true,
        }
    }

    /// Sets the number of Retry packets that the worker may send a second. A flood ends by the end of a window only.
    pub(in crate::endpoint) fn set_retries(&mut self, per_second: u64) {
        let tolerated = per_second.max(TOLERATED);
        self.known.tolerated = tolerated;
        self.unknown.tolerated = tolerated;
    }

    /// Counts an Initial that opens no connection yet; it was `answered`, or came to nothing.
    pub(in crate::endpoint) fn on_initial(&mut self, sender: Sender, answered: bool) {
        let class = match sender {
            Sender::Known => &mut self.known,
            Sender::Unknown => &mut self.unknown,
        };
        class.arrived += 1;
        class.answered += u64::from(answered);
    }

    /// Ends the window if it is over, and returns what changes.
    pub(in crate::endpoint) fn end_window(&mut self, now: Instant) -> Option<Change> {
        let length = now.saturating_duration_since(self.began);
        if length < WINDOW {
            return None;
        }
        self.began = now;
        let (flooded, shares) = (self.is_flooded(), self.shares());
        let offered = self.known.end_window(length) + self.unknown.end_window(length);
        if !self.works {
            return None;
        }
        match (flooded, self.is_flooded()) {
            (false, true) => Some(Change::Begins(offered)),
            (true, false) => Some(Change::Ends),
            _ => (shares != self.shares()).then_some(Change::Shares),
        }
    }

    /// Returns when the window is to end even if nothing arrives; `None` while all Initials pass anyway.
    pub(in crate::endpoint) fn deadline(&self) -> Option<Instant> {
        (self.works && self.is_flooded()).then(|| self.began + WINDOW)
    }

    /// Returns the shares that are to pass.
    pub(in crate::endpoint) fn shares(&self) -> InitialShares {
        if !self.works {
            return InitialShares::default();
        }
        InitialShares { known: self.known.share, unknown: self.unknown.share }
    }

    /// Lets all Initials pass from now on, because the backend or the host drops none.
    pub(in crate::endpoint) fn disable(&mut self) {
        self.works = false;
    }

    fn is_flooded(&self) -> bool {
        self.known.flooded || self.unknown.flooded
    }
}

/// Initials of one kind of senders.
#[derive(Debug)]
struct Class {
    /// Initials a second that are no flood: [`TOLERATED`], or more where the worker may respond to more.
    tolerated: u64,
    /// Initials in this window.
    arrived: u64,
    /// Those of them that the worker responded to.
    answered: u64,
    share: u32,
    flooded: bool,
    /// Windows in a row that speak for the other state.
    windows: u8,
}

impl Class {
    fn new(tolerated: u64) -> Class {
        Class { tolerated, arrived: 0, answered: 0, share: ALL, flooded: false, windows: 0 }
    }

    /// Ends a window of this length. Returns the Initials that clients send a second, by estimate.
    fn end_window(&mut self, length: Duration) -> u64 {
        let millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let per_second = |count: u64| count.saturating_mul(1000) / millis.max(1);
        let arrived = per_second(std::mem::take(&mut self.arrived));
        let answered = per_second(std::mem::take(&mut self.answered));
        let offered = arrived.saturating_mul(ALL.into()) / u64::from(self.share);
        let wanted = (answered + answered / 4).max(self.tolerated / 2);
        let speaks_for_change = if self.flooded {
            offered <= self.tolerated / 4 * 3
        } else {
            arrived >= self.tolerated && arrived - answered >= arrived / 4
        };
        let enough = if self.flooded { CALM } else { STRAINED };
        self.windows = if speaks_for_change { self.windows + 1 } else { 0 };
        if self.windows == enough {
            self.flooded = !self.flooded;
            self.windows = 0;
        }
        self.share = if self.flooded { self.next_share(wanted, offered) } else { ALL };
        offered
    }

    /// Returns the share with which the `wanted` of the `offered` Initials arrive: at most twice the share now, and the same if the
    /// difference is small. It falls by half or more, because a worker that cannot read all that the share passes underestimates
    /// what is offered.
    fn next_share(&self, wanted: u64, offered: u64) -> u32 {
        let share = wanted.saturating_mul(ALL.into()) / offered.max(1);
        let share = u32::try_from(share).unwrap_or(ALL);
        let share = share.min(ALL.min(2 * self.share));
        let is_near = share.abs_diff(self.share) <= self.share / 8;
        if is_near && share != ALL {
            self.share
        } else if share < self.share && self.share < ALL {
            share.min(self.share / 2).max(LEAST_SHARE)
        } else {
            share.max(LEAST_SHARE)
        }
    }
}

impl<A: Application> Endpoint<A> {
    /// Ends a window in which Initials are counted, if it is over. Returns what changes: then the driver gets another
    /// [`Endpoint::initial_filter`]. A worker calls it once a turn.
    pub fn end_initial_window(&mut self, now: Instant) -> Option<Change> {
        self.initials.end_window(now)
    }

    /// Returns the filter that the driver is to have; `None` if all Initials are to pass.
    pub fn initial_filter(&self) -> Option<InitialFilter> {
        self.initial_shares().filter(self.mark)
    }

    /// Returns the shares of Initials that pass.
    pub fn initial_shares(&self) -> InitialShares {
        self.initials.shares()
    }

    /// Notes that the driver has no filter, and asks for none any more.
    pub fn on_filter_refused(&mut self) {
        self.initials.disable();
    }

    /// Decides about an Initial for a connection that does not exist, and notes whether it came to nothing.
    pub(in crate::endpoint) fn admit_noted(
        &mut self,
        meta: &RxMeta,
        header: &Header<'_>,
        now: Instant,
        unix: Duration,
    ) -> Option<usize> {
        let before = self.unanswered_initials();
        let slot = self.admit(meta, header, now, unix);
        self.note_initial(self.sender(header.dcid), before);
        slot
    }

    /// Names the supported versions to the sender of a datagram, and notes whether there was room to.
    pub(in crate::endpoint) fn negotiate_noted(
        &mut self,
        meta: &RxMeta,
        trigger: usize,
        header: &Header<'_>,
    ) {
        let before = self.unanswered_initials();
        self.negotiate(meta, trigger, header);
        self.note_initial(Sender::Unknown, before);
    }

    /// Notes a datagram that is dropped for `reason`, if the filter drops its like.
    pub(in crate::endpoint) fn note_unusable(&mut self, datagram: &[u8], reason: DropReason) {
        let sender = match (reason, Header::parse_as_client(datagram, self.cid_len)) {
            (DropReason::UnknownVersion, _) => Sender::Unknown,
            (_, Ok(header)) if header.kind == HeaderKind::Initial => self.sender(header.dcid),
            _ => return,
        };
        self.initials.on_initial(sender, false);
    }

    fn note_initial(&mut self, sender: Sender, before: u64) {
        let answered = self.unanswered_initials() == before;
        self.initials.on_initial(sender, answered);
    }

    /// Tells senders apart as the filter does.
    fn sender(&self, dcid: &[u8]) -> Sender {
        if self.mark.is_some_and(|mark| mark.is_on(dcid)) { Sender::Known } else { Sender::Unknown }
    }

    /// Returns the number of datagrams that asked for a connection and were dropped, to spare the worker or for a wrong token.
    fn unanswered_initials(&self) -> u64 {
        let dropped = &self.counters.dropped;
        let reasons = [DropReason::RetryLimit, DropReason::RefusalLimit, DropReason::StatelessFull];
        let dropped = reasons.iter().map(|reason| dropped[*reason]);
        dropped.sum::<u64>() + self.counters.bad_tokens
    }
}

#[cfg(test)]
mod tests;
