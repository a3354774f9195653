//! Admission of new connections: limits, and Retry as proof of an address.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_base::address::{UnvalidatedAddress, ValidatedAddress};
use sluicegate_base::observe::metrics::Label;
use sluicegate_dataplane::RxMeta;

use super::Endpoint;
use super::stateless::{MAX_STATELESS, StatelessPacket};
use crate::application::{Application, Introduction, Shared as _};
use crate::cid::{CidPurpose, ConnectionId};
use crate::connection::Accepted;
use crate::counters::{DropReason, RefusalReason};
use crate::header::{Header, V1};
use crate::holders::Holder;
use crate::token::{OriginalDcid, TokenKind};

/// The sender of an Initial has not proved its address.
struct Unproved;

impl<A: Application> Endpoint<A> {
    /// Decides about an Initial for a connection that does not exist. Returns the slot of the connection that was made.
    ///
    /// Nothing is kept for a client that is refused or asked to prove its address (RFC 9000 §8.1).
    pub(super) fn admit(
        &mut self,
        meta: &RxMeta,
        header: &Header<'_>,
        now: Instant,
        unix: Duration,
    ) -> Option<usize> {
        let source = UnvalidatedAddress::from(meta.peer);
        if let Some(reason) = self.refusal(meta, now) {
            self.log_refusal(source, reason, now);
            self.refuse(meta, header, reason, now);
            return None;
        }
        // A token that is not ours counts as none (RFC 9000 §8.1.3).
        if TokenKind::of(header.token) == Some(TokenKind::Retry) {
            let opened = self.retry_tokens.open(header.token, source, header.dcid, unix);
            match opened {
                Ok(original) => return self.admit_proved(meta, header, &original),
                Err(error) => {
                    self.counters.bad_tokens += 1;
                    tracing::debug!(reason = error.name(), "Retry token refused");
                    if error.is_ours() {
                        return None;
                    }
                }
            }
        }
        let by_token = self.ask_for_proof(meta, header, now, unix).ok()?;
        let cid = self.generate_cid(CidPurpose::Connection);
        let slot = self.accept(meta, cid, header.dcid, false)?;
        let original = header.dcid.to_vec();
        self.connections.add_id(original.clone(), slot);
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.keep_original(original);
            match by_token {
                Some(client) => connection.prove_by_token(client, meta.local),
                None => connection.keep_token(header.token),
            }
        }
        Some(slot)
    }

    /// Accepts a client that has proved its address by a Retry.
    fn admit_proved(
        &mut self,
        meta: &RxMeta,
        header: &Header<'_>,
        original: &OriginalDcid,
    ) -> Option<usize> {
        let cid = ConnectionId::try_from(header.dcid).ok()?;
        let slot = self.accept(meta, cid, original.as_ref(), true)?;
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.note_path();
        }
        self.note_validation(slot);
        Some(slot)
    }

    /// Asks the sender of an Initial to prove its address by a Retry where many handshakes are unfinished, where one of them is to give
    /// way to it, or where those in a client's name make up its share: they may be somebody else's. Returns the address that a token
    /// proves in its place.
    ///
    /// # Errors
    /// The sender has to come back with the proof, or is refused where no proof is ever asked for.
    fn ask_for_proof(
        &mut self,
        meta: &RxMeta,
        header: &Header<'_>,
        now: Instant,
        unix: Duration,
    ) -> Result<Option<ValidatedAddress>, Unproved> {
        let source = UnvalidatedAddress::from(meta.peer);
        let claimed = self.holders.claimed(source);
        let has_share = claimed.with_unproved < self.settings.limits.connections_per_client
            || self.is_proxy(meta.listener, source.ip());
        match self.settings.quic.retry_above {
            None if has_share => return Ok(None),
            None => {
                self.log_refusal(source, RefusalReason::Client, now);
                self.refuse(meta, header, RefusalReason::Client, now);
            }
            Some(above) if has_share => {
                if self.half_open.len() < above && !self.is_full() {
                    // A token is not used up where nothing is asked of the client.
                    return Ok(None);
                }
                let client = self.open_token(meta.listener, source, header.token, unix);
                if client.is_some() {
                    return Ok(client.filter(|client| !self.is_proxy(meta.listener, client.ip())));
                }
                self.ask_to_retry(meta, header, now, unix);
            }
            Some(_) => self.ask_to_retry(meta, header, now, unix),
        }
        Err(Unproved)
    }

    /// Returns why no further connection is accepted from the sender of a datagram, if so.
    fn refusal(&mut self, meta: &RxMeta, now: Instant) -> Option<RefusalReason> {
        let share = self.settings.limits.connections_per_client;
        let source = UnvalidatedAddress::from(meta.peer);
        // Whoever sends it, the client may have no other connection.
        let own = self.holders.claimed(source).own;
        let is_removed = !self.settings.listeners.contains_key(&meta.listener);
        if self.is_draining() || is_removed {
            Some(RefusalReason::Draining)
        } else if self.is_full() && self.giving_way(now).is_none() {
            Some(RefusalReason::Worker)
        } else if !self.is_proxy(meta.listener, source.ip()) && own >= share {
            Some(RefusalReason::Client)
        } else if self.settings.shared.memory().is_short() {
            Some(RefusalReason::Memory)
        } else {
            None
        }
    }

    /// Returns whether the worker has as many connections as it may.
    fn is_full(&self) -> bool {
        self.len() as u64 >= self.settings.limits.connections_per_worker
    }

    /// Returns the slot of the connection that gives way to a newcomer: an unfinished handshake, or else an idle connection.
    fn giving_way(&mut self, now: Instant) -> Option<usize> {
        let unfinished = self.half_open.giving_way(now);
        unfinished.or_else(|| self.longest_idle(now))
    }

    /// Makes room for a newcomer if the worker is full. Returns whether there is room.
    fn make_room(&mut self, now: Instant) -> bool {
        if !self.is_full() {
            return true;
        }
        let Some(slot) = self.giving_way(now) else {
            return false;
        };
        if self.stateless.len() < MAX_STATELESS
            && let Some(connection) = self.connections.get_mut(slot)
            && let Some((meta, bytes)) = connection.last_datagram()
        {
            self.stateless.push_back(StatelessPacket {
                listener: connection.listener,
                meta,
                bytes,
            });
        }
        if self.connections.get(slot).is_some_and(|connection| connection.is_half_open()) {
            self.counters.displaced += 1;
        } else {
            self.counters.idle_displaced += 1;
            self.look_further();
        }
        self.remove(slot, now);
        true
    }

    /// Logs whose connection is refused at a limit, now and then.
    fn log_refusal(&mut self, source: UnvalidatedAddress, reason: RefusalReason, now: Instant) {
        if reason != RefusalReason::Draining && self.may_log(now) {
            let (client, refused) = (Holder::unproved(source), self.counters.refused[reason]);
            tracing::warn!(%client, reason = reason.name(), refused, "connection refused");
        }
    }

    /// Returns whether another client may be named in the log.
    pub(super) fn may_log(&mut self, now: Instant) -> bool {
        self.log_limit.allow(now.saturating_duration_since(self.epoch))
    }

    fn ask_to_retry(&mut self, meta: &RxMeta, header: &Header<'_>, now: Instant, unix: Duration) {
        let since = now.saturating_duration_since(self.epoch);
        if !self.rates.retries.allow(since) {
            self.counters.on_drop(DropReason::RetryLimit);
            return;
        }
        if !self.has_stateless_room() {
            return;
        }
        let cid = self.generate_cid(CidPurpose::Retry);
        let source = UnvalidatedAddress::from(meta.peer);
        let Some(token) = self.retry_tokens.seal(source, header.dcid, cid, unix) else {
            return;
        };
        let mut out = vec![0; 512];
        let made = quiche::retry(
            &quiche::ConnectionId::from_ref(header.scid),
            &quiche::ConnectionId::from_ref(header.dcid),
            &quiche::ConnectionId::from_ref(cid.as_bytes()),
            &token,
            V1,
            &mut out,
        );
        if let Ok(len) = made {
            out.truncate(len);
            self.counters.retries += 1;
            self.queue_stateless(meta, out);
        }
    }

    fn accept(
        &mut self,
        meta: &RxMeta,
        cid: ConnectionId,
        original_dcid: &[u8],
        after_retry: bool,
    ) -> Option<usize> {
        let source = UnvalidatedAddress::from(meta.peer);
        let now = quiche::clock::now();
        if !self.make_room(now) {
            return None;
        }
        let listener = self.settings.listeners.get_mut(&meta.listener)?;
        // A client that never changes its connection ID learns the token only here (RFC 9000 §10.3).
        let token = u128::from_be_bytes(self.reset_tokens.token(cid.as_bytes()));
        listener.config.set_stateless_reset_token(Some(token));
        let known = listener.selection.path(meta.local.ip(), &self.resumptions);
        let awaited = known.as_ref().map(|known| known.client.clone());
        let (choice, guarded) = listener.selection.choose(source, now);
        let algorithm = choice.algorithm;
        listener.config.set_cc_factory(choice.factory_for(known));
        let max_datagram = listener.max_datagram(meta.local.ip(), &self.settings.quic);
        listener.config.set_max_send_udp_payload_size(max_datagram);
        let before_retry = after_retry.then_some(original_dcid);
        let odcid = before_retry.map(quiche::ConnectionId::from_ref);
        let id = quiche::ConnectionId::from_ref(cid.as_bytes());
        let quic = quiche::accept(&id, odcid.as_ref(), meta.local, meta.peer, &mut listener.config);
        let quic = match quic {
            Ok(quic) => quic,
            Err(error) => {
                tracing::debug!(%error, "quiche refused a connection");
                self.counters.on_refusal(RefusalReason::Failure);
                return None;
            }
        };
        let introduction = Introduction {
            listener: Arc::clone(&listener.name),
            original_dcid: original_dcid.into(),
            algorithm,
        };
        let accepted = Accepted {
            quic,
            peer: A::describe(&listener.application, introduction),
            listener: meta.listener,
            algorithm,
            holder: Holder::unproved(source),
            address: source,
            begun: now,
            handshake_deadline: now + self.settings.limits.handshake_timeout,
            max_datagram,
        };
        self.holders.enter(accepted.holder);
        let key = self.insert(accepted, cid, before_retry);
        if let (Some(connection), Some(awaited)) = (self.connections.get_mut(key.slot), awaited) {
            connection.await_address(awaited);
        }
        self.half_open.enter(key.generation, source.into(), key.slot, now);
        self.counters.accepted += 1;
        *self.counters.by_algorithm.entry(algorithm).or_default() += 1;
        self.counters.guarded += u64::from(guarded);
        self.trace_accepted(key.slot, original_dcid, now);
        Some(key.slot)
    }
}
