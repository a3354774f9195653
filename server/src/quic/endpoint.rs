//! All connections of one worker: where a datagram goes, what leaves next, and when.

mod draining;
mod origin;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_dataplane::{Egress, NoRoom, RxMeta};

use super::cid::{CidGenerator, ConnectionId};
use super::connection::{Connection, Emitted};
use super::counters::{Counters, DropReason};
use super::entropy::Entropy;
use super::header::{Header, Kind};
use super::rate_limit::RateLimit;
use super::reset::ResetTokens;
use super::settings::Settings;
use super::stateless::Stateless;
use super::timers::Timers;
use super::token::Tokens;
use crate::h3::{self, SessionContext};
use crate::http::clients::Clients;
use crate::http::files::Cache;

/// Where a datagram belongs, if not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingest {
    /// It was dealt with.
    Done,
    /// It belongs to the worker with this index.
    Misrouted(u8),
}

/// The endpoint of one worker.
pub struct Endpoint {
    pub(super) settings: Settings,
    pub(super) connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    pub(super) cid_table: HashMap<Vec<u8>, usize>,
    timers: Timers,
    ready: VecDeque<usize>,
    pub(super) stateless: VecDeque<Stateless>,
    pub(super) half_open: u64,
    pub(super) clients: Clients,
    pub(super) cids: CidGenerator,
    pub(super) entropy: Entropy,
    pub(super) tokens: Tokens,
    pub(super) reset_tokens: ResetTokens,
    pub(super) reset_limit: RateLimit,
    pub(super) epoch: Instant,
    /// Since when.
    draining: Option<Instant>,
    /// Serial number of the connection taken in last.
    last_serial: u64,
    /// Files that are answered from memory.
    pub(super) cache: Cache,
    /// Slots of connections whose requests wait for room in the origin's ring.
    awaiting_ring: Vec<usize>,
    /// What happened so far.
    pub counters: Counters,
}

impl Endpoint {
    /// An endpoint without connections.
    pub fn new(settings: Settings, now: Instant) -> Self {
        let secrets = Arc::clone(&settings.secrets);
        let file_cache = (settings.limits.file_cache, settings.limits.file_cache_valid);
        let resets = u32::try_from(settings.quic.stateless_reset_per_second).unwrap_or(u32::MAX);
        Self {
            cids: CidGenerator::new(settings.worker, secrets.generation()),
            tokens: Tokens::new(&secrets, settings.quic.retry_token_lifetime),
            reset_tokens: ResetTokens::new(&secrets),
            reset_limit: RateLimit::new(resets, resets),
            settings,
            connections: Vec::new(),
            free: Vec::new(),
            cid_table: HashMap::new(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            stateless: VecDeque::new(),
            half_open: 0,
            clients: Clients::default(),
            entropy: Entropy::new(),
            epoch: now,
            draining: None,
            last_serial: 0,
            cache: Cache::new(file_cache.0, file_cache.1),
            awaiting_ring: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Open connections.
    pub fn len(&self) -> usize {
        self.connections.len() - self.free.len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes one datagram. `unix` is the time since 1970, for tokens.
    pub fn ingest(
        &mut self,
        meta: &RxMeta,
        datagram: &mut [u8],
        now: Instant,
        unix: Duration,
    ) -> Ingest {
        let header = match Header::parse(datagram) {
            Ok(header) => header,
            Err(reason) => return self.drop_datagram(reason),
        };
        if let Some(&key) = self.cid_table.get(header.dcid) {
            self.receive(key, meta, datagram, now);
            return Ingest::Done;
        }
        // A client's own choice looks like one of ours now and then, and may name a worker that there is not.
        if let Ok(cid) = ConnectionId::try_from(header.dcid)
            && cid.is_of(self.settings.secrets.generation())
            && cid.worker() != self.settings.worker
            && usize::from(cid.worker()) < self.settings.workers
        {
            self.counters.misrouted += 1;
            return Ingest::Misrouted(cid.worker());
        }
        match header.kind {
            Kind::UnknownVersion => {
                self.negotiate(meta, datagram.len(), &header);
                Ingest::Done
            }
            Kind::Initial => {
                match self.admit(meta, &header, unix) {
                    Some(key) => self.receive(key, meta, datagram, now),
                    None => return Ingest::Done,
                }
                Ingest::Done
            }
            Kind::Short => {
                let dcid = <[u8; super::cid::LEN]>::try_from(header.dcid);
                if let Ok(dcid) = dcid {
                    self.reset(meta, datagram.len(), &dcid, now);
                }
                self.drop_datagram(DropReason::UnknownConnection)
            }
            _ => self.drop_datagram(DropReason::UnknownConnection),
        }
    }

    fn drop_datagram(&mut self, reason: DropReason) -> Ingest {
        self.counters.on_drop(reason);
        Ingest::Done
    }

    /// Takes a connection in and answers its key.
    pub(super) fn insert(&mut self, mut connection: Connection) -> usize {
        self.last_serial += 1;
        connection.serial = self.last_serial;
        let connection = Some(Box::new(connection));
        match self.free.pop() {
            Some(key) => {
                self.connections[key] = connection;
                key
            }
            None => {
                self.connections.push(connection);
                self.connections.len() - 1
            }
        }
    }

    fn receive(&mut self, key: usize, meta: &RxMeta, datagram: &mut [u8], now: Instant) {
        let Some(connection) = self.connections[key].as_mut() else {
            return;
        };
        let info = quiche::RecvInfo {
            from: meta.peer,
            to: meta.local,
        };
        connection.heard = Some(now);
        // Every error ends the connection or concerns this datagram alone; quiche knows which.
        if let Err(error) = connection.quic.recv(datagram, info) {
            self.counters.on_drop(DropReason::RefusedByEngine);
            tracing::trace!(%error, "datagram refused by the connection");
        }
        self.queue(key);
    }

    fn queue(&mut self, key: usize) {
        if let Some(connection) = self.connections[key].as_mut()
            && !connection.ready
        {
            connection.ready = true;
            self.ready.push_back(key);
        }
    }

    /// Runs up to `budget` of the timers that are due.
    pub fn on_deadline(&mut self, budget: usize, now: Instant) {
        for _ in 0..budget {
            let Some((at, key)) = self.timers.take_due(now) else {
                return;
            };
            let Some(connection) = self.connections.get_mut(key).and_then(Option::as_mut) else {
                continue;
            };
            if !connection.timer.fired(at) {
                continue;
            }
            if connection.quic.timeout_instant().is_some_and(|t| t <= now) {
                connection.quic.on_timeout();
            }
            let cancelled = connection.close_late_handshake(now);
            self.counters.handshake_timeouts += u64::from(cancelled);
            self.queue(key);
        }
    }

    /// Hands over what was logged in a turn.
    pub fn flush_log(&mut self) {
        if let Some(access) = &mut self.settings.access {
            access.flush();
        }
    }

    /// When [`Endpoint::on_deadline`] wants to be called next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Whether [`Endpoint::emit`] has work.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.stateless.is_empty()
    }

    /// Writes what leaves next: answers without a connection first, then connections in turn, a burst each. Returns whether
    /// the budget ended it, so that there may be more to send at once.
    pub fn emit(&mut self, out: &mut dyn Egress, now: Instant) -> bool {
        for _ in 0..self.stateless.len() {
            let Some(answer) = self.stateless.pop_front() else {
                break;
            };
            match out.room(answer.listener, answer.bytes.len()) {
                Ok(room) => {
                    room.copy_from_slice(&answer.bytes);
                    out.commit(answer.bytes.len(), &answer.meta);
                }
                Err(NoRoom::Unknown) => {}
                Err(NoRoom::Blocked) => self.stateless.push_back(answer),
                Err(NoRoom::Budget) => {
                    self.stateless.push_front(answer);
                    return true;
                }
            }
        }
        // Rounds, until no connection has sent anything in one.
        let mut active = true;
        while std::mem::take(&mut active) {
            for _ in 0..self.ready.len() {
                let Some(key) = self.ready.pop_front() else {
                    break;
                };
                match self.emit_from(key, out, now) {
                    Some(Emitted::More) => {
                        self.queue(key);
                        active = true;
                    }
                    Some(Emitted::NoRoom(NoRoom::Budget)) => {
                        self.queue(key);
                        return true;
                    }
                    // It goes on when its listener has room, which ends the wait.
                    Some(Emitted::NoRoom(_)) => self.queue(key),
                    Some(Emitted::Nothing) => self.rest(key, now),
                    None => {}
                }
            }
        }
        false
    }

    fn emit_from(&mut self, key: usize, out: &mut dyn Egress, now: Instant) -> Option<Emitted> {
        let connection = self.connections[key].as_mut()?;
        connection.ready = false;
        let place = (key, connection.serial);
        let (cache, counters) = (&mut self.cache, &mut self.counters.h3);
        connection.drive(&mut session_context(
            &mut self.settings,
            cache,
            counters,
            place,
            now,
        ));
        connection.note_requests(now);
        if connection.is_awaiting_ring() && !std::mem::replace(&mut connection.awaiting_ring, true)
        {
            self.awaiting_ring.push(key);
        }
        self.settle(key);
        let connection = self.connections[key].as_mut()?;
        Some(connection.emit(out, now))
    }

    /// Sets the timer of a connection that has nothing to send, or removes it where that was all.
    fn rest(&mut self, key: usize, now: Instant) {
        let Some(connection) = self.connections[key].as_mut() else {
            return;
        };
        if connection.is_over() {
            self.remove(key, now);
            return;
        }
        let deadline = connection.deadline();
        self.timers.set(&mut connection.timer, key, deadline);
        let open = self.connections.iter().enumerate();
        let slots = open.filter_map(|(key, c)| Some((key, c.as_ref()?.timer)));
        self.timers.tidy(self.connections.len(), slots);
    }

    /// Brings the routes in line with the connection IDs, and counts a finished handshake.
    fn settle(&mut self, key: usize) {
        let Some(connection) = self.connections[key].as_mut() else {
            return;
        };
        if connection.half_open && connection.quic.is_established() {
            connection.on_established();
            self.half_open = self.half_open.saturating_sub(1);
            self.counters.established += 1;
            if self.draining.is_some() {
                connection.drain();
            }
            if let Some((peer, min_rtt)) = connection.min_rtt()
                && let Some(listener) = self.settings.listeners.get_mut(&connection.listener)
                && let Some(network) = listener
                    .selection
                    .learn(peer, min_rtt, quiche::clock::now())
            {
                tracing::info!(
                    listener = %listener.name, %network, ?min_rtt,
                    "low round-trip time: no bbr3 for further connections from this network"
                );
            }
        }
        while let Some(retired) = connection.quic.retired_scid_next() {
            self.cid_table.remove(retired.as_ref());
            connection
                .cids
                .retain(|cid| cid.as_bytes()[..] != retired[..]);
        }
        for cid in connection.issue_cids(&mut self.cids, &self.reset_tokens) {
            self.cid_table.insert(cid.as_bytes().to_vec(), key);
        }
    }

    fn remove(&mut self, key: usize, now: Instant) {
        let Some(mut connection) = self.connections[key].take() else {
            return;
        };
        let place = (key, connection.serial);
        let (cache, counters) = (&mut self.cache, &mut self.counters.h3);
        connection.clear(&mut session_context(
            &mut self.settings,
            cache,
            counters,
            place,
            now,
        ));
        self.clients.leave(connection.client);
        for cid in &connection.cids {
            self.cid_table.remove(&cid.as_bytes()[..]);
        }
        if let Some(dcid) = &connection.original_dcid {
            forget_cid(&mut self.cid_table, dcid, key);
        }
        if connection.half_open {
            self.half_open = self.half_open.saturating_sub(1);
            self.counters.unfinished += 1;
        }
        self.free.push(key);
    }
}

/// The endpoint's things for the session of the connection with that slot and serial number.
fn session_context<'a>(
    settings: &'a mut Settings,
    cache: &'a mut Cache,
    counters: &'a mut h3::Counters,
    (slot, serial): (usize, u64),
    now: Instant,
) -> SessionContext<'a> {
    SessionContext {
        site: &settings.site,
        h3: &settings.h3,
        origin_ring: settings.origin_ring.as_mut(),
        counters,
        cache,
        access: settings.access.as_mut(),
        slot,
        serial,
        now,
    }
}

/// Removes a route where it leads to `key`: two connections may have had the same first choice.
fn forget_cid(cid_table: &mut HashMap<Vec<u8>, usize>, cid: &[u8], key: usize) {
    if cid_table.get(cid) == Some(&key) {
        cid_table.remove(cid);
    }
}

#[cfg(test)]
mod tests;
