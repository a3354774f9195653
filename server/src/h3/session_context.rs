//! State that the sessions of a worker share.

use std::sync::Arc;
use std::time::Instant;

use sluicegate_base::clients::relief::{FrontRelief, Holdings};
use sluicegate_base::keys::ExchangeKey;
use sluicegate_base::observe::account::{Account, AccountMark, RequestAccount, Wait};
use sluicegate_base::observe::memory_budget::MemoryBudget;
use sluicegate_base::observe::request_logs::RequestLogs;
use sluicegate_quic::application::Shared;

use sluicegate_http::exchange::message::ToFront;
use sluicegate_http::exchange::ring::{Depth, OriginRing};
use sluicegate_http::files::Cache;
use sluicegate_http::gate::{Gate, RequestCounters};
use sluicegate_http::route::Site;

/// Part of the memory limit that the streams of a connection hold, at most, for a client that acknowledges nothing of it: one in so many.
const UNACKED_PART: u64 = 64;

/// State that all sessions of a worker share; the endpoint owns it and lends it to one session at a time.
pub struct SessionContext {
    /// Routes and handlers of the configuration in effect.
    pub site: Arc<Site>,
    /// HTTP/3 settings of new sessions.
    pub h3: quiche::h3::Config,
    /// Ring to the worker's origin thread.
    pub origin_ring: Option<OriginRing>,
    /// Counters of all sessions.
    pub counters: RequestCounters,
    /// Files in memory.
    pub cache: Cache,
    /// Memory budget of the process.
    pub memory: Arc<MemoryBudget>,
    /// Whether that is used up, as of this turn.
    memory_is_short: bool,
    /// Part of the worker's connections in the relief of all fronts while memory is short.
    pub(crate) relief: FrontRelief,
    /// Worker's ends of the access log and of the export of spans.
    pub logs: RequestLogs,
    /// Time of the present step of the turn.
    pub now: Instant,
    /// Account of the present session's connection.
    account: Account,
}

impl Shared for SessionContext {
    type Message = ToFront;

    fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    fn look_at(&mut self, account: &Account) {
        self.account.clone_from(account);
    }

    /// Reads the memory budget. A process without memory keeps no files in it.
    fn begin_service(&mut self) {
        let short = self.memory.is_short();
        if short && !self.memory_is_short {
            self.cache.clear();
        }
        self.memory_is_short = short;
    }

    fn next_message(&mut self) -> Option<(ExchangeKey, ToFront)> {
        self.origin_ring.as_mut()?.take()
    }

    fn next_revoked(&mut self) -> Option<ExchangeKey> {
        self.origin_ring.as_mut()?.take_revoked()
    }

    fn has_room(&self) -> bool {
        self.origin_ring.as_ref().is_some_and(OriginRing::has_room)
    }

    fn flush(&mut self) {
        if let Some(origin_ring) = &mut self.origin_ring {
            origin_ring.flush();
        }
    }

    fn flush_log(&mut self) {
        self.logs.flush();
    }

    fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    fn relief(&self) -> &FrontRelief {
        &self.relief
    }
}

impl SessionContext {
    /// Returns how full the rings to the origin thread are; all zero where there is none.
    pub fn origin_depth(&self) -> Depth {
        self.origin_ring.as_ref().map(OriginRing::depth).unwrap_or_default()
    }

    /// Returns the account of the present session's connection at this time.
    pub(super) fn account_now(&self) -> AccountMark {
        self.account.at(self.now)
    }

    /// Adds the time of a request that has ended to those of each wait.
    pub(super) fn record_waits(&mut self, request: &RequestAccount) {
        let Self { counters, account, now, .. } = self;
        request.add_to(&mut counters.waits, *now, || account.at(*now));
    }

    /// Returns the gate for one decision.
    pub(super) fn gate(&mut self) -> Gate<'_> {
        Gate {
            site: &self.site,
            cache: &mut self.cache,
            memory_is_short: self.memory_is_short,
            counters: &mut self.counters.gate,
            now: self.now,
        }
    }

    /// Returns the bytes that the streams of a connection may hold for its client, sent or not; the send buffer alone is never too much.
    pub(super) fn most_unacked(&self) -> u64 {
        let buffer = self.site.limits().connection_send_buffer;
        match self.memory.limit() {
            0 => u64::MAX,
            limit => buffer.saturating_mul(4).max(limit / UNACKED_PART),
        }
    }

    /// Serves new requests by another site.
    pub fn adopt(&mut self, site: Arc<Site>) {
        self.cache.adopt(site.file_store());
        self.site = site;
    }

    /// Returns a context for `site` without an origin thread and without logs.
    pub fn new(site: Arc<Site>, h3: quiche::h3::Config, now: Instant) -> Self {
        let cache = Cache::new(site.file_store());
        Self {
            site,
            h3,
            origin_ring: None,
            counters: RequestCounters::default(),
            cache,
            memory: Arc::default(),
            memory_is_short: false,
            relief: Arc::<Holdings>::default().add_front(),
            logs: RequestLogs::default(),
            now,
            account: Account::begin(Wait::Handshake, now),
        }
    }
}
