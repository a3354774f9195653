//! Initials that open no connection: how many come to nothing, and which share of them the kernel is to pass.

use std::time::{Duration, Instant};

use sluicegate_dataplane::{InitialFilter, RxMeta};

use super::Endpoint;
use crate::application::Application;
use crate::counters::DropReason;
use crate::header::{Header, Kind};
use crate::initials::{Change, InitialShares, Sender};

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
    pub(super) fn admit_noted(
        &mut self,
        meta: &RxMeta,
        header: &Header<'_>,
        at: (Instant, Duration),
    ) -> Option<usize> {
        let before = self.initials_in_vain();
        let slot = self.admit(meta, header, at);
        self.note_initial(self.sender(header.dcid), before);
        slot
    }

    /// Names the supported versions to the sender of a datagram, and notes whether there was room to.
    pub(super) fn negotiate_noted(&mut self, meta: &RxMeta, trigger: usize, header: &Header<'_>) {
        let before = self.initials_in_vain();
        self.negotiate(meta, trigger, header);
        self.note_initial(Sender::Unknown, before);
    }

    /// Notes a datagram that is dropped for `reason`, if the filter drops its like.
    pub(super) fn note_unusable(&mut self, datagram: &[u8], reason: DropReason) {
        let sender = match (reason, Header::parse_as_client(datagram, self.cid_len)) {
            (DropReason::UnknownVersion, _) => Sender::Unknown,
            (_, Ok(header)) if header.kind == Kind::Initial => self.sender(header.dcid),
            _ => return,
        };
        self.initials.on_initial(sender, false);
    }

    fn note_initial(&mut self, sender: Sender, before: u64) {
        let answered = self.initials_in_vain() == before;
        self.initials.on_initial(sender, answered);
    }

    /// Tells senders apart as the filter does.
    fn sender(&self, dcid: &[u8]) -> Sender {
        if self.mark.is_some_and(|mark| mark.is_on(dcid)) { Sender::Known } else { Sender::Unknown }
    }

    /// Returns the number of datagrams that asked for a connection in vain, for the sake of the worker's time or with a wrong token.
    fn initials_in_vain(&self) -> u64 {
        let dropped = &self.counters.dropped;
        let reasons = [DropReason::RetryLimit, DropReason::RefusalLimit, DropReason::StatelessFull];
        let dropped = reasons.iter().map(|reason| dropped[*reason]);
        dropped.sum::<u64>() + self.counters.bad_tokens
    }
}
