//! All connections of one worker: where a datagram goes, what leaves next, and when.

mod admission;
mod adopt;
mod draining;
mod emit;
pub mod inspect;
#[cfg(any(test, feature = "test-fixtures"))]
mod invariants;
mod messages;
mod network;
mod recorder;
mod retire;
mod service;
mod shedding;
mod stateless;
pub mod switch;
mod table;
mod tokens;
pub mod traces;
mod validation;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_base::entropy::Entropy;
use sluicegate_base::keys::ConnectionKey;
use sluicegate_base::overload::Overload;
use sluicegate_base::token_bucket::TokenBucket;
use sluicegate_dataplane::{CidMark, ListenerId, RxMeta};

pub use self::adopt::EndpointConfig;
use self::retire::Retirement;
use self::shedding::half_open::HalfOpen;
use self::shedding::initials::InitialControl;
pub use self::shedding::initials::{Change, InitialShares};
use self::shedding::relief::Relief;
use self::stateless::StatelessPacket;
use self::table::{ConnectionTable, make_unused};
use self::traces::TraceWatch;
use super::application::{Application, Shared as _};
use super::cid::{CidPurpose, ConnectionId, Owner};
use super::connection::{Accepted, Connection, Due};
use super::connection_gauges::ConnectionGauges;
use super::counters::{DatagramOutcome, DropReason, QuicCounters};
use super::ended_connections::ConnectionClass;
use super::header::{Header, HeaderKind};
use super::holders::Holders;
use super::prefetch::prefetch;
use super::rates::Rates;
use super::recorder::RecorderPool;
use super::reset::ResetTokens;
use super::settings::Settings;
use super::timers::Timers;
use super::token::{NewTokens, RetryTokens};
use crate::congestion::path_table::Resumptions;

/// Outcome of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingest {
    /// The endpoint has dealt with it.
    Done,
    /// It belongs to the worker with this index.
    Misrouted(u8),
    /// It belongs to a connection of a process with this generation, or of any other process if the generation is the own one. Where there
    /// is no such process, [`Endpoint::reset_foreign`] takes it.
    Foreign(u8),
}

/// Number of connections above which a connection is prefetched: by estimate, fewer stay in the caches.
const PREFETCH_ABOVE: usize = 256;

/// A shutdown under way.
#[derive(Debug)]
struct Shutdown {
    /// Time at which it began.
    since: Instant,
    /// Whether connections are closed whatever they wait for.
    at_once: bool,
    /// First slot to whose connection it was not announced.
    next: usize,
}

/// The endpoint of one worker.
pub struct Endpoint<A: Application> {
    settings: Settings<A>,
    connections: ConnectionTable<A>,
    timers: Timers,
    stateless: VecDeque<StatelessPacket>,
    half_open: HalfOpen,
    /// Connections that have sent CONNECTION_CLOSE or received one.
    ended: usize,
    gauges: ConnectionGauges,
    holders: Holders,
    /// Length of its connection IDs, bytes.
    cid_len: usize,
    /// Whether clients get spare connection IDs.
    gives_spares: bool,
    /// Mark of the process's connection IDs, if they have one.
    mark: Option<CidMark>,
    /// Generation of the process that new connections are left to.
    successor: Option<u8>,
    /// Whether connections of other processes may have IDs of this one's making.
    shares_ids: bool,
    entropy: Entropy,
    retry_tokens: RetryTokens,
    new_tokens: NewTokens,
    reset_tokens: ResetTokens,
    rates: Rates,
    /// Limit of lines in the log that name a client.
    log_limit: TokenBucket,
    /// Time at which the rate limits begin.
    epoch: Instant,
    /// Time since 1970 when the last datagram arrived.
    unix: Duration,
    shutdown: Option<Shutdown>,
    /// Removed listeners that still have connections.
    retiring: Vec<Retirement>,
    /// Number of connections of each listener that has had one.
    by_listener: HashMap<ListenerId, usize>,
    relief: Relief,
    /// Slot at which the next search for an idle connection begins.
    idle_hand: usize,
    overload: Overload,
    initials: InitialControl,
    /// Slots of connections whose data waits for room in the ring to other threads.
    awaiting_room: Vec<usize>,
    /// Orders of an operator for traces of the next connections.
    watches: Vec<Arc<TraceWatch>>,
    recorders: RecorderPool,
    /// Counts of what happened so far, without those that others keep: see [`Endpoint::totals`].
    pub counters: QuicCounters,
    /// Counts of careful resume, which congestion controllers keep.
    resumptions: Arc<Resumptions>,
}

impl<A: Application> Endpoint<A> {
    /// Returns an endpoint without connections.
    pub fn new(settings: Settings<A>, now: Instant) -> Self {
        let secrets = Arc::clone(&settings.secrets);
        let cid_len = settings.cid_scheme.cid_len();
        Self {
            cid_len,
            gives_spares: settings.cid_scheme.gives_spares(),
            mark: settings.cid_scheme.mark(secrets.generation()),
            successor: None,
            shares_ids: false,
            retry_tokens: RetryTokens::new(&secrets, settings.quic.retry_token_lifetime, cid_len),
            new_tokens: NewTokens::new(
                &secrets,
                &settings.used_tokens,
                settings.quic.new_token_lifetime,
            ),
            reset_tokens: ResetTokens::new(&secrets),
            rates: Rates::new(&settings.quic),
            initials: InitialControl::new(settings.quic.retries_per_second, now),
            log_limit: TokenBucket::new(1, 4),
            recorders: RecorderPool::of(settings.tracing.as_ref()),
            settings,
            connections: ConnectionTable::new(now),
            timers: Timers::default(),
            stateless: VecDeque::new(),
            half_open: HalfOpen::default(),
            ended: 0,
            gauges: ConnectionGauges::default(),
            holders: Holders::default(),
            entropy: Entropy::new(),
            epoch: now,
            unix: Duration::ZERO,
            shutdown: None,
            retiring: Vec::new(),
            by_listener: HashMap::new(),
            relief: Relief::default(),
            idle_hand: 0,
            overload: Overload::default(),
            awaiting_room: Vec::new(),
            watches: Vec::new(),
            counters: QuicCounters::default(),
            resumptions: Arc::default(),
        }
    }

    /// Returns the number of open connections.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of connections of each listener that has any.
    pub fn by_listener(&self) -> Vec<(ListenerId, u64)> {
        self.by_listener.iter().map(|(id, count)| (*id, *count as u64)).collect()
    }

    /// Returns the number of connections, by what they do; costs the same however many there are.
    pub fn gauges(&self) -> ConnectionGauges {
        ConnectionGauges {
            open: self.len() as u64,
            half_open: self.half_open.len(),
            recorders: self.recorders.lent(),
            ..self.gauges.clone()
        }
    }

    /// Returns all counters, those that others keep included.
    pub fn totals(&self) -> QuicCounters {
        let mut totals = QuicCounters {
            careful_resume: self.resumptions.totals(),
            recorders_refused: self.recorders.refused(),
            ..self.counters.clone()
        };
        recorder::add_settled(&self.recorders, &mut totals);
        totals
    }

    /// Returns what the sessions share.
    pub fn shared(&self) -> &A::Shared {
        &self.settings.shared
    }

    /// Returns what the sessions share, for other settings.
    pub fn shared_mut(&mut self) -> &mut A::Shared {
        &mut self.settings.shared
    }

    /// Takes one datagram. `unix` is the time since 1970, for tokens.
    pub fn ingest(
        &mut self,
        meta: &RxMeta,
        datagram: &mut [u8],
        now: Instant,
        unix: Duration,
    ) -> Ingest {
        self.unix = unix;
        self.connections.set_now(now);
        let header = match self.parse(datagram) {
            Ok(header) => header,
            Err(reason) => {
                self.note_unusable(datagram, reason);
                return self.drop_datagram(reason);
            }
        };
        if let Some(slot) = self.connections.find(header.dcid) {
            self.prefetch(slot);
            // What is wrong with it, the connection says itself.
            let _ = self.receive(slot, meta, datagram, now);
            return Ingest::Done;
        }
        let owner = self.settings.cid_scheme.owner(header.dcid);
        let own = self.settings.secrets.generation();
        // A client's own choice looks like one of ours now and then, and may name a worker that there is not.
        if let Owner::Ours { worker, generation } = owner
            && generation == own
            && worker != self.settings.worker
            && usize::from(worker) < self.settings.workers
        {
            self.counters.misrouted += 1;
            return Ingest::Misrouted(worker);
        }
        let generation = match owner {
            Owner::Ours { generation, .. } => generation,
            Owner::Foreign => own,
        };
        match (header.kind, self.successor) {
            (HeaderKind::Short, _) if generation != own => return Ingest::Foreign(generation),
            (HeaderKind::Short, _) if self.shares_ids && owner != Owner::Foreign => {
                return Ingest::Foreign(own);
            }
            // After a Retry of this process, a connection there has an ID that this one has made. It also answers for those that have ended.
            (_, Some(successor)) => return Ingest::Foreign(successor),
            (HeaderKind::Short, None) => return self.reset_foreign(meta, datagram, now),
            _ => {}
        }
        let answers = self.counters.answers();
        match header.kind {
            HeaderKind::UnknownVersion => {
                self.negotiate_noted(meta, datagram.len(), &header);
                self.counters.on_stateless_outcome(answers);
            }
            HeaderKind::Initial => match self.admit_noted(meta, &header, now, unix) {
                Some(slot) => {
                    let received = self.receive(slot, meta, datagram, now);
                    if received == Err(quiche::Error::InvalidTransportParam) {
                        self.refuse_parameters(meta, datagram, now);
                    }
                }
                None => self.counters.on_stateless_outcome(answers),
            },
            _ if generation != own => return Ingest::Foreign(generation),
            _ => return self.drop_datagram(DropReason::UnknownConnection),
        }
        Ingest::Done
    }

    /// Drops a datagram whose connection another process may know, unless this one has made its ID: then as
    /// [`Endpoint::reset_foreign`].
    pub fn reset_own(&mut self, meta: &RxMeta, datagram: &[u8], now: Instant) {
        let owner = self.parse(datagram).map(|header| self.settings.cid_scheme.owner(header.dcid));
        let own = self.generation();
        if matches!(owner, Ok(Owner::Ours { generation, .. }) if generation == own) {
            self.reset_foreign(meta, datagram, now);
        } else {
            self.drop_datagram(DropReason::UnknownConnection);
        }
    }

    /// Drops a datagram whose connection no process knows, and queues a stateless reset for its sender.
    pub fn reset_foreign(&mut self, meta: &RxMeta, datagram: &[u8], now: Instant) -> Ingest {
        let answers = self.counters.answers();
        if let Ok(header) = self.parse(datagram)
            && header.kind == HeaderKind::Short
        {
            self.reset(meta, datagram.len(), header.dcid, now);
        }
        self.counters.on_drop(DropReason::UnknownConnection);
        self.counters.on_stateless_outcome(answers);
        Ingest::Done
    }

    /// Reads the header of a datagram.
    fn parse<'d>(&self, datagram: &'d [u8]) -> Result<Header<'d>, DropReason> {
        Header::parse(datagram, self.cid_len)
    }

    /// Makes a connection ID of this worker that no connection has.
    fn generate_cid(&mut self, purpose: CidPurpose) -> ConnectionId {
        let Settings { cid_scheme, worker, secrets, .. } = &mut self.settings;
        let generation = secrets.generation();
        make_unused(self.connections.taken_ids(), || {
            cid_scheme.generate_for(purpose, *worker, generation, &mut self.entropy)
        })
    }

    fn drop_datagram(&mut self, reason: DropReason) -> Ingest {
        self.counters.on_drop(reason);
        self.counters.on_outcome(DatagramOutcome::Dropped);
        Ingest::Done
    }

    /// Keeps a connection that was accepted under `cid`, and `original`, if the client had another one before. Returns its key.
    fn insert(
        &mut self,
        accepted: Accepted<A>,
        cid: ConnectionId,
        original: Option<&[u8]>,
    ) -> ConnectionKey {
        *self.by_listener.entry(accepted.listener).or_default() += 1;
        let key = self.connections.insert(accepted, cid, original);
        self.note_controller(key.slot);
        key
    }

    /// Prefetches a connection, if there are so many that it has probably left the caches.
    fn prefetch(&self, slot: usize) {
        if self.len() > PREFETCH_ABOVE
            && let Some(connection) = self.connections.get(slot)
        {
            prefetch(connection);
        }
    }

    fn receive(
        &mut self,
        slot: usize,
        meta: &RxMeta,
        datagram: &mut [u8],
        now: Instant,
    ) -> Result<(), quiche::Error> {
        let overloaded = self.overload.is_on(now);
        let Some(connection) = self.connections.get_mut(slot) else {
            return Ok(());
        };
        if !connection.is_in_credit(now) && overloaded {
            self.drop_datagram(DropReason::NoProgress);
            return Ok(());
        }
        self.counters.on_outcome(DatagramOutcome::Connection);
        let info = quiche::RecvInfo { from: meta.peer, to: meta.local };
        let ecn = quiche::Ecn::from_bits(meta.ecn.bits());
        let received = connection.receive(datagram, info, ecn, now);
        connection.move_ecn(&mut self.counters.ecn);
        if let Err(error) = received {
            self.counters.on_drop(DropReason::ProtocolError);
            tracing::trace!(%error, "datagram refused by the connection");
        }
        self.connections.queue_service(slot);
        received
    }

    /// Runs up to `budget` of the timers that are due.
    pub fn on_deadline(&mut self, mut budget: usize, now: Instant) {
        self.connections.set_now(now);
        while let Some(slot) = self.timers.take_due(&mut budget, now) {
            let Some(connection) = self.connections.get_mut(slot) else {
                continue;
            };
            match connection.on_timer(now) {
                Some(Due::Handshake) => {
                    self.counters.handshake_timeouts += 1;
                    self.connections.queue_service(slot);
                }
                Some(Due::Service) => self.connections.queue_service(slot),
                Some(Due::Emission) => self.connections.queue_emit(slot),
                None => self.arm(slot, now),
            }
        }
    }

    /// Returns when [`Endpoint::on_deadline`] is to be called next.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        let window = self.initials.deadline();
        self.timers.earliest().into_iter().chain(window).min()
    }

    /// Passes the records of a turn to the writer of the access log.
    pub fn flush_log(&mut self) {
        self.settings.shared.flush_log();
    }

    /// Brings the gauges in line with what a connection's congestion controller does.
    fn note_controller(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot) {
            let (before, now) = connection.move_controller();
            self.gauges.move_controller(before, now);
        }
    }

    fn remove(&mut self, slot: usize, now: Instant) {
        let Some(mut connection) = self.connections.remove(slot) else {
            return;
        };
        if connection.is_half_open() {
            self.half_open.leave(connection.key.generation);
            self.counters.unfinished[connection.handshake_failure()] += 1;
        } else {
            self.record_end(&connection, now);
        }
        connection.clear(&mut self.settings.shared);
        connection.end_recorder(&mut self.recorders);
        self.timers.clear(slot);
        self.leave_listener(connection.listener);
        if let Some(holder) = connection.holder {
            self.holders.leave(holder);
        }
        self.ended -= usize::from(connection.count_end());
        self.gauges.move_controller(connection.move_controller().0, None);
    }

    /// Adds a connection to the figures of those that have ended.
    fn record_end(&mut self, connection: &Connection<A>, now: Instant) {
        if let Some(listener) = self.name_until_end(connection.listener) {
            let class = ConnectionClass { listener, algorithm: connection.algorithm };
            connection.record_end(self.counters.ended.entry(class).or_default(), now);
        }
    }

    /// Ends the receive phase of a turn, which took `spent`. All connections of the worker wait for that phase. The service of
    /// those that achieve little has been added to it.
    pub fn end_receive(&mut self, spent: Duration, now: Instant) {
        let percent = self.settings.limits.overload_above;
        self.overload.on_phase(spent, percent, now);
    }
}

#[cfg(test)]
mod tests;
