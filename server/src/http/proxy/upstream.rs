//! Upstreams, their health, and which one is next.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use sluicegate_config::{Proxy, UpstreamAddress};
use tokio::time::Instant;

use super::connection::UpstreamConnection;
use super::counters::{Counters, State, Tally};
use super::failure::Failure;
use super::idle::IdleConnections;
use super::metered_stream::Open;
use super::transport::Transport;
use crate::observe::sum::Sum;

/// Shortest time between two warnings about failures of one upstream.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// What an upstream's connections and health depend on, so that routes which differ in it share neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settings {
    keepalive: u64,
    keepalive_timeout: Duration,
    header_bytes: u64,
    max_fails: u64,
    fail_timeout: Duration,
}

impl Settings {
    fn of(proxy: &Proxy) -> Settings {
        Settings {
            keepalive: proxy.keepalive,
            keepalive_timeout: proxy.keepalive_timeout,
            header_bytes: proxy.header_bytes,
            max_fails: proxy.max_fails,
            fail_timeout: proxy.fail_timeout,
        }
    }
}

/// All upstreams of a thread, with their connections and what is known of their health.
#[derive(Debug, Default)]
pub struct Upstreams {
    tally: Rc<Tally>,
    /// By addresses, then settings.
    groups: RefCell<BTreeMap<Vec<UpstreamAddress>, Vec<Rc<Group>>>>,
}

impl Upstreams {
    /// No upstream yet.
    pub fn new() -> Rc<Upstreams> {
        Rc::default()
    }

    /// The configuration in force: what it no longer names is closed as soon as its exchanges are over, and what it
    /// still names, with the same settings, keeps its connections and health.
    pub fn configure<'a>(&self, proxies: impl IntoIterator<Item = &'a Proxy>) {
        let mut kept: BTreeMap<Vec<UpstreamAddress>, Vec<Rc<Group>>> = BTreeMap::new();
        let mut known = self.members();
        for proxy in proxies {
            let same = kept.entry(proxy.upstreams.clone()).or_default();
            let settings = Settings::of(proxy);
            if same.iter().any(|group| group.settings == settings) {
                continue;
            }
            let group = self.find(proxy).unwrap_or_else(|| self.make(proxy, &known));
            known.extend(group.members.iter().cloned());
            same.push(group);
        }
        let before = self.groups.replace(kept);
        let used = self.members();
        for member in members_of(&before) {
            if !used.iter().any(|known| Rc::ptr_eq(known, &member)) {
                member.idle.close();
            }
        }
    }

    /// Totals, and the states of the upstreams.
    pub fn counters(&self) -> Counters {
        let mut counters = self.tally.totals();
        let now = Instant::now();
        for member in self.members() {
            let state = member.state(now);
            counters
                .upstreams
                .entry(member.label.clone())
                .or_default()
                .add_up(&state);
        }
        counters
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the upstreams of a route. A route that the configuration in force no longer has gets upstreams of its own, which
    /// keep no connection: a late request does not bring back what a reload removed.
    pub(super) fn group(&self, proxy: &Proxy) -> Rc<Group> {
        self.find(proxy).unwrap_or_else(|| {
            let group = self.make(proxy, &[]);
            group.members.iter().for_each(|member| member.idle.close());
            group
        })
    }

    fn find(&self, proxy: &Proxy) -> Option<Rc<Group>> {
        let settings = Settings::of(proxy);
        let groups = self.groups.borrow();
        let mut same = groups.get(&proxy.upstreams)?.iter();
        same.find(|group| group.settings == settings).cloned()
    }

    /// Makes the upstreams of a route, of `known` ones where they are the same.
    fn make(&self, proxy: &Proxy, known: &[Rc<Upstream>]) -> Rc<Group> {
        let settings = Settings::of(proxy);
        let member = |address: &UpstreamAddress| {
            let same = |m: &&Rc<Upstream>| m.address == *address && m.settings == settings;
            match known.iter().find(same) {
                Some(member) => Rc::clone(member),
                None => Rc::new(Upstream::new(address, settings, &self.tally)),
            }
        };
        Rc::new(Group {
            settings,
            members: proxy.upstreams.iter().map(member).collect(),
            turn: Cell::new(0),
        })
    }

    fn members(&self) -> Vec<Rc<Upstream>> {
        members_of(&self.groups.borrow())
    }
}

/// Each once.
fn members_of(groups: &BTreeMap<Vec<UpstreamAddress>, Vec<Rc<Group>>>) -> Vec<Rc<Upstream>> {
    let mut members: Vec<Rc<Upstream>> = Vec::new();
    for member in groups.values().flatten().flat_map(|group| &group.members) {
        if !members.iter().any(|known| Rc::ptr_eq(known, member)) {
            members.push(Rc::clone(member));
        }
    }
    members
}

/// Upstreams that take turns.
#[derive(Debug)]
pub(super) struct Group {
    settings: Settings,
    members: Vec<Rc<Upstream>>,
    turn: Cell<usize>,
}

impl Group {
    /// The next upstream in rotation that this request has not tried; where none is left, the next one there is.
    pub(super) fn next(&self, tried: &[Rc<Upstream>], now: Instant) -> Option<Turn> {
        let count = self.members.len();
        let order = || (0..count).map(|step| (self.turn.get() + step) % count);
        let untried = |index: &usize| {
            let member = &self.members[*index];
            !tried.iter().any(|known| Rc::ptr_eq(known, member))
        };
        let in_rotation = |index: &usize| self.members[*index].in_rotation(now);
        let index = order()
            .filter(untried)
            .find(in_rotation)
            .or_else(|| order().find(untried))
            .or_else(|| order().next())?;
        self.turn.set((index + 1) % count);
        Some(Turn::new(&self.members[index], now))
    }
}

/// A server that requests are passed on to.
#[derive(Debug)]
pub(super) struct Upstream {
    address: UpstreamAddress,
    /// The address in logs and metrics.
    label: String,
    transport: Transport,
    settings: Settings,
    tally: Rc<Tally>,
    idle: Rc<IdleConnections>,
    connections: Rc<Cell<u64>>,
    active: Cell<u64>,
    failures: Cell<u64>,
    /// Failures since the last success.
    in_a_row: Cell<u64>,
    /// Out of rotation until then.
    out_until: Cell<Option<Instant>>,
    /// One request tries whether it is back.
    on_trial: Cell<bool>,
    /// Time of the last warning about a failure.
    warned_at: Cell<Option<Instant>>,
}

impl Upstream {
    fn new(address: &UpstreamAddress, settings: Settings, tally: &Rc<Tally>) -> Upstream {
        Upstream {
            address: address.clone(),
            label: address.to_string(),
            transport: Transport::new(address, tally),
            settings,
            tally: Rc::clone(tally),
            idle: IdleConnections::new(settings.keepalive, settings.keepalive_timeout, tally),
            connections: Rc::default(),
            active: Cell::new(0),
            failures: Cell::new(0),
            in_a_row: Cell::new(0),
            out_until: Cell::new(None),
            on_trial: Cell::new(false),
            warned_at: Cell::new(None),
        }
    }

    /// Returns the upstream's own host for the `host` field: without the default port, `localhost` for a socket.
    pub(super) fn host(&self) -> &str {
        match &self.address {
            UpstreamAddress::Tcp(server) => server.strip_suffix(":80").unwrap_or(server),
            UpstreamAddress::Unix(_) => "localhost",
        }
    }

    /// Idle connections.
    pub(super) fn idle(&self) -> &Rc<IdleConnections> {
        &self.idle
    }

    /// A connection that waits, unless a fresh one is asked for, or else a new one.
    pub(super) async fn connection(
        &self,
        fresh: bool,
        limit: Duration,
    ) -> Result<UpstreamConnection, Failure> {
        if !fresh && let Some(connection) = self.idle.take().await {
            self.tally.count(|c| c.reused += 1);
            return Ok(connection);
        }
        let stream = self.transport.connect(limit).await?;
        self.tally.count(|c| c.opened += 1);
        let open = Open::new(&self.connections);
        let connection = UpstreamConnection::new(stream, open, self.settings.header_bytes).await;
        connection.ok_or(Failure::Closed)
    }

    fn in_rotation(&self, now: Instant) -> bool {
        self.out_until
            .get()
            .is_none_or(|until| now >= until && !self.on_trial.get())
    }

    /// Logs the cause of a failure: as a warning, unless there was one within [`WARNING_INTERVAL`].
    fn log(&self, failure: Failure) {
        let (now, cause) = (Instant::now(), failure.text());
        let recent = |at: Instant| now.duration_since(at) < WARNING_INTERVAL;
        if self.warned_at.get().is_some_and(recent) {
            tracing::debug!(upstream = self.label, "an upstream failed: {cause}");
        } else {
            self.warned_at.set(Some(now));
            tracing::warn!(upstream = self.label, "an upstream failed: {cause}");
        }
    }

    fn state(&self, now: Instant) -> State {
        let out = self.out_until.get().is_some_and(|until| now < until);
        State {
            active: self.active.get(),
            connections: self.connections.get(),
            idle: self.idle.len() as u64,
            out: u64::from(out),
            failures: self.failures.get(),
        }
    }
}

/// An upstream while it serves a request.
#[derive(Debug)]
pub(super) struct Turn {
    upstream: Rc<Upstream>,
    trial: bool,
}

impl Turn {
    pub(super) fn new(upstream: &Rc<Upstream>, now: Instant) -> Turn {
        let trial = upstream.in_rotation(now) && upstream.out_until.get().is_some();
        if trial {
            upstream.on_trial.set(true);
        }
        upstream.active.set(upstream.active.get() + 1);
        Turn {
            upstream: Rc::clone(upstream),
            trial,
        }
    }

    pub(super) fn upstream(&self) -> &Rc<Upstream> {
        &self.upstream
    }

    /// It answered.
    pub(super) fn on_success(&self) {
        self.upstream.in_a_row.set(0);
        self.upstream.out_until.set(None);
    }

    /// The request failed here; with `blame`, because of the upstream. After `max_fails` in a row, or on trial, it leaves
    /// the rotation for `fail_timeout`.
    pub(super) fn on_failure(&self, failure: Failure, blame: bool) {
        let upstream = &self.upstream;
        upstream.tally.count(|c| c.failures[failure] += 1);
        if !blame || !failure.blames_upstream() {
            return;
        }
        upstream.log(failure);
        upstream.failures.set(upstream.failures.get() + 1);
        let in_a_row = upstream.in_a_row.get().saturating_add(1);
        upstream.in_a_row.set(in_a_row);
        let Settings {
            max_fails,
            fail_timeout,
            ..
        } = upstream.settings;
        if max_fails > 0 && (self.trial || in_a_row >= max_fails) {
            if upstream.out_until.get().is_none() {
                tracing::warn!(
                    upstream = upstream.label,
                    failures = in_a_row,
                    "an upstream is out of rotation: {}",
                    failure.text()
                );
            }
            let until = Instant::now().checked_add(fail_timeout);
            upstream.out_until.set(until);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.trial {
            self.upstream.on_trial.set(false);
        }
        self.upstream.active.set(self.upstream.active.get() - 1);
    }
}
