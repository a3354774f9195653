//! Answers to datagrams of no connection.

use std::time::Instant;

use sluicegate_dataplane::{Ecn, ListenerId, RxMeta, TxMeta};

use super::counters::DropReason;
use super::endpoint::Endpoint;
use super::header::Header;
use super::reset::MIN_TRIGGER;

/// Answers made without a connection (Retry, version negotiation, reset) that wait to be sent. More are dropped.
pub(super) const MAX_STATELESS: usize = 64;

/// A datagram made without a connection.
pub(super) struct Stateless {
    pub(super) listener: ListenerId,
    pub(super) meta: TxMeta,
    pub(super) bytes: Vec<u8>,
}

impl Endpoint {
    /// Tells the sender of a datagram of `trigger` bytes which versions are spoken here (RFC 9000 §6).
    pub(super) fn negotiate(&mut self, meta: &RxMeta, trigger: usize, header: &Header<'_>) {
        let mut out = vec![0; 600];
        let len = super::version::write_negotiation(trigger, header, &mut out, &mut self.entropy);
        if let Some(len) = len {
            out.truncate(len);
            self.counters.negotiations += u64::from(self.answer(meta, out));
        }
    }

    /// RFC 9000 §10.3: a peer that talks to a connection that this process does not know.
    pub(super) fn reset(&mut self, meta: &RxMeta, trigger: usize, dcid: &[u8], now: Instant) {
        // Too short for an answer: it must not use up what the limit allows.
        if trigger < MIN_TRIGGER {
            return;
        }
        if !self
            .reset_limit
            .allow(now.saturating_duration_since(self.epoch))
        {
            self.counters.on_drop(DropReason::ResetLimit);
            return;
        }
        let mut out = vec![0; 128];
        let token = self.reset_tokens.token(dcid);
        if let Some(len) = super::reset::write_reset(trigger, &token, &mut out, &mut self.entropy) {
            out.truncate(len);
            self.counters.resets += u64::from(self.answer(meta, out));
        }
    }

    /// Queues a datagram to where `meta` came from; `false` where it is dropped for want of room.
    pub(super) fn answer(&mut self, meta: &RxMeta, bytes: Vec<u8>) -> bool {
        if self.stateless.len() >= MAX_STATELESS {
            self.counters.on_drop(DropReason::AnswersFull);
            return false;
        }
        let listener = meta.listener;
        let meta = TxMeta {
            peer: meta.peer,
            local: Some(meta.local),
            ecn: Ecn::NotCapable,
            departure: None,
        };
        let answer = Stateless {
            listener,
            meta,
            bytes,
        };
        self.stateless.push_back(answer);
        true
    }
}
