//! Stateless packets, sent without a connection: Retry, Version Negotiation, Stateless Reset, refusals of connections.

use sluicegate_dataplane::ListenerId;
use std::time::Instant;

use sluicegate_dataplane::{Ecn, RxMeta, TxMeta};

use super::Endpoint;
use crate::application::Application;
use crate::cid::CidPurpose;
use crate::counters::{DropReason, RefusalReason};
use crate::header::Header;
use crate::refusal::{self, CONNECTION_REFUSED, TRANSPORT_PARAMETER_ERROR};
use crate::reset::{min_trigger, write_reset};

/// Number of stateless packets that may wait to be sent. Where so many wait no further one is made.
pub(super) const MAX_STATELESS: usize = 128;

/// A stateless packet that waits to be sent.
pub(super) struct StatelessPacket {
    pub(super) listener: ListenerId,
    pub(super) meta: TxMeta,
    pub(super) bytes: Vec<u8>,
}

impl<A: Application> Endpoint<A> {
    /// Names the supported versions to the sender of a datagram of `trigger` bytes (RFC 9000 §6).
    pub(crate) fn negotiate(&mut self, meta: &RxMeta, trigger: usize, header: &Header<'_>) {
        if !self.has_stateless_room() {
            return;
        }
        let mut out = vec![0; 600];
        let len =
            super::super::version::write_negotiation(trigger, header, &mut out, &mut self.entropy);
        if let Some(len) = len {
            out.truncate(len);
            self.counters.negotiations += 1;
            self.queue_stateless(meta, out);
        }
    }

    /// Resets a connection that this process does not know, at a datagram of `trigger` bytes (RFC 9000 §10.3).
    pub(crate) fn reset(&mut self, meta: &RxMeta, trigger: usize, dcid: &[u8], now: Instant) {
        // Too short for a reset: it must not use up what the limit allows.
        if trigger < min_trigger(dcid.len()) {
            return;
        }
        if !self.rates.resets.allow(now.saturating_duration_since(self.epoch)) {
            self.counters.on_drop(DropReason::ResetLimit);
            return;
        }
        if !self.has_stateless_room() {
            return;
        }
        let mut out = vec![0; 128];
        let token = self.reset_tokens.token(dcid);
        let length = write_reset(trigger, dcid.len(), &token, &mut out, &mut self.entropy);
        if let Some(len) = length {
            out.truncate(len);
            self.counters.resets += 1;
            self.queue_stateless(meta, out);
        }
    }

    /// Refuses the connection that an Initial asks for (RFC 9000 §5.2.2). Counts the Initial.
    pub(crate) fn refuse(
        &mut self,
        meta: &RxMeta,
        header: &Header<'_>,
        reason: RefusalReason,
        now: Instant,
    ) {
        self.counters.on_refusal(reason);
        self.close_stateless(meta, header, CONNECTION_REFUSED, now);
    }

    /// Reports that the transport parameters in a client's first datagram are wrong. quiche forgets such a connection without a
    /// word, because it has not taken any packet of it.
    pub(crate) fn refuse_parameters(&mut self, meta: &RxMeta, datagram: &[u8], now: Instant) {
        self.counters.on_refusal(RefusalReason::Failure);
        if let Ok(header) = self.parse(datagram) {
            self.close_stateless(meta, &header, TRANSPORT_PARAMETER_ERROR, now);
        }
    }

    /// Queues CONNECTION_CLOSE for the client whose Initial begins with `header`, up to a rate.
    fn close_stateless(&mut self, meta: &RxMeta, header: &Header<'_>, code: u8, now: Instant) {
        if !self.rates.refusals.allow(now.saturating_duration_since(self.epoch)) {
            self.counters.on_drop(DropReason::RefusalLimit);
            return;
        }
        if !self.has_stateless_room() {
            return;
        }
        let mut out = vec![0; refusal::LONGEST];
        let scid = self.generate_cid(CidPurpose::Refusal);
        if let Some(len) = refusal::write_refusal(header, code, scid, &mut out) {
            out.truncate(len);
            self.counters.refusals += 1;
            self.queue_stateless(meta, out);
        }
    }

    /// Returns whether a further stateless packet may wait; counts the one that may not. Asked before the packet is made, so that a
    /// flood costs no cryptography.
    pub(crate) fn has_stateless_room(&mut self) -> bool {
        let room = self.stateless.len() < MAX_STATELESS;
        if !room {
            self.counters.on_drop(DropReason::StatelessFull);
        }
        room
    }

    /// Queues a datagram to the sender of the one that `meta` describes; only after [`Endpoint::has_stateless_room`].
    pub(crate) fn queue_stateless(&mut self, meta: &RxMeta, bytes: Vec<u8>) {
        let listener = meta.listener;
        let meta = TxMeta {
            peer: meta.peer,
            local: Some(meta.local),
            ecn: Ecn::NotCapable,
            departure: None,
        };
        self.stateless.push_back(StatelessPacket { listener, meta, bytes });
    }
}
