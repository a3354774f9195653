//! One upstream server: its transport, connections and health.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::ProxyProtocolVersion;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::across_threads::{SharedState, UpstreamState};
use super::counters::{Tally, UpstreamCounters};
use super::definition::{MemberDefinition, PoolDefinition};
use super::failure::Failure;
use super::health::Health;
use super::metered_stream::Open;
use super::protocol::{
    Begun, ConnectionLimits, Http1Stream, IdleConnections, Protocols, UpstreamStream,
};
use super::shared::{SharedConnections, Turn};
use super::slots::{Slot, Slots};
use super::transport::{ByteStream, Opened, Protocol, Transport, proxy_protocol};
use super::verdict::Verdict;
use crate::peer::Peer;

/// Server that requests are forwarded to.
#[derive(Debug)]
pub(super) struct Upstream {
    /// Address in logs and metrics.
    label: Arc<str>,
    /// Value of the `host` field for routes that send the upstream's own.
    host: String,
    transport: Transport,
    /// PROXY protocol of its connections, each of which serves one request then.
    proxy_protocol: Option<ProxyProtocolVersion>,
    /// Protocol of its connections: the one that it chose last, if it has a choice.
    protocol: Cell<Option<Protocol>>,
    /// The upstream requires HTTP/1.1, which is all that is offered to it.
    is_http1_only: Cell<bool>,
    protocols: Protocols,
    shared: SharedConnections,
    tally: Rc<Tally>,
    connections: Rc<Cell<u64>>,
    active: Cell<u64>,
    health: Health,
    /// State on all threads.
    state: SharedState<UpstreamState>,
    /// Whether health checks had taken the upstream out of rotation when it was last looked at.
    was_down: Cell<bool>,
    /// Task of the health checks, if this thread makes them.
    checks: RefCell<Option<AbortHandle>>,
    checks_made: Cell<u64>,
    checks_failed: Cell<u64>,
}

impl Upstream {
    pub(super) fn new(
        pool: &PoolDefinition,
        member: &MemberDefinition,
        tally: &Rc<Tally>,
    ) -> Rc<Upstream> {
        let (address, settings) = (&member.address, &pool.settings);
        let transport = Transport::new(address, settings, tally);
        Rc::new(Upstream {
            label: address.to_string().into(),
            host: address.host_field().to_owned(),
            protocol: Cell::new(transport.protocol()),
            is_http1_only: Cell::new(false),
            protocols: Protocols {
                scheme: transport.scheme(),
                limits: ConnectionLimits {
                    idle: match settings.keepalive {
                        0 => Duration::ZERO,
                        _ => settings.keepalive_timeout,
                    },
                    max_age: settings.max_age,
                    header_bytes: settings.header_bytes,
                },
                idle: IdleConnections::new(settings, tally),
            },
            transport,
            proxy_protocol: settings.proxy_protocol,
            shared: SharedConnections::default(),
            tally: Rc::clone(tally),
            connections: Rc::default(),
            active: Cell::new(0),
            health: Health::new(settings.max_fails, settings.fail_timeout),
            state: member.state.clone(),
            was_down: Cell::new(false),
            checks: RefCell::default(),
            checks_made: Cell::new(0),
            checks_failed: Cell::new(0),
        })
    }

    /// Returns the address in logs and metrics.
    pub(super) fn label(&self) -> &Arc<str> {
        &self.label
    }

    /// Returns the upstream's own host: without the default port, `localhost` for a socket.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Takes the task of the health checks, which ends with the upstream.
    pub(super) fn take_checks(&self, checks: AbortHandle) {
        *self.checks.borrow_mut() = Some(checks);
    }

    /// Counts a health check.
    pub(super) fn count_check(&self, is_ok: bool) {
        self.checks_made.set(self.checks_made.get() + 1);
        let failed = self.checks_failed.get() + u64::from(!is_ok);
        self.checks_failed.set(failed);
    }

    /// Returns the verdict of the health checks.
    pub(super) fn verdict(&self) -> &Verdict {
        &self.state.verdict
    }

    /// Returns what a connection of no client begins with.
    fn own_header(&self) -> Vec<u8> {
        self.proxy_protocol.map(proxy_protocol::of_server).unwrap_or_default()
    }

    /// Opens a byte stream within `limit` for another protocol than HTTP.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn bare_stream(&self, limit: Duration) -> Result<ByteStream, Failure> {
        self.transport.stream(limit, &self.own_header()).await
    }

    /// Opens a connection within `limit` for a health check, which no exchange uses.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn stream_for_check(
        &self,
        limit: Duration,
    ) -> Result<Box<dyn UpstreamStream>, Failure> {
        let opened = self.transport.connect(limit, &self.own_header()).await?;
        // The metrics count the connections of exchanges.
        let open = Open::new(&Rc::default());
        let Begun { stream, shared } = self.protocols.begin(opened, open).await?;
        if let Some(connection) = shared {
            connection.retire();
        }
        Ok(stream)
    }

    /// Closes idle connections, keeps none from now on, and ends the health checks. Exchanges that have begun go on.
    pub(super) fn retire(&self) {
        if let Some(checks) = self.checks.take() {
            checks.abort();
        }
        self.protocols.idle.close();
        self.shared.close();
    }

    /// Returns an idle connection, unless `fresh`, or a place on a shared one; or opens one within `limit`. One that names
    /// its client is opened in any case.
    ///
    /// # Errors
    /// Why no connection could be opened.
    pub(super) async fn stream(
        &self,
        peer: &Peer,
        fresh: bool,
        limit: Duration,
    ) -> Result<Box<dyn UpstreamStream>, Failure> {
        if self.proxy_protocol.is_none() {
            let idle = if fresh { None } else { self.protocols.idle.take().await };
            if let Some(connection) = idle {
                self.tally.count(|c| c.reused += 1);
                return Ok(Http1Stream::new(connection, &self.protocols.idle));
            }
        }
        // Most requests find an idle connection, and their tasks are smaller without this future.
        Box::pin(self.shared_or_new(peer, limit)).await
    }

    /// Returns a place on a shared connection, or opens a connection within `limit`.
    async fn shared_or_new(
        &self,
        peer: &Peer,
        limit: Duration,
    ) -> Result<Box<dyn UpstreamStream>, Failure> {
        if self.proxy_protocol.is_some() {
            return self.own_connection(peer, limit).await;
        }
        let deadline = Instant::now() + limit;
        loop {
            if self.is_http1_only.get() {
                return self.own_connection(peer, limit).await;
            }
            if let Some(stream) = self.shared.take() {
                self.tally.count(|c| c.reused += 1);
                return Ok(stream);
            }
            if self.protocol.get() == Some(Protocol::Http1) {
                return self.open(deadline).await;
            }
            if let Turn::Open(opener) = self.shared.turn(deadline).await? {
                let opened = self.open(deadline).await;
                return opened.inspect_err(|failure| opener.fail(*failure));
            }
        }
    }

    /// Offers only HTTP/1.1 from now on, which the upstream requires. Returns whether it can choose that.
    pub(super) fn require_http1(&self) -> bool {
        let chooses = self.transport.protocol().is_none();
        self.is_http1_only.set(chooses);
        chooses
    }

    /// Returns a connection for a tunnel within `limit`: if `takes_http2`, a stream of HTTP/2 where the upstream takes one, but opens no connection for
    /// it to an upstream that speaks HTTP/1.1 as well; otherwise a connection of HTTP/1.1.
    ///
    /// # Errors
    /// Why there is none; [`Failure::NoWebsocket`] if the upstream speaks HTTP/2 or HTTP/3 only, and takes no tunnels.
    pub(super) async fn stream_for_tunnel(
        &self,
        peer: &Peer,
        takes_http2: bool,
        limit: Duration,
    ) -> Result<Box<dyn UpstreamStream>, Failure> {
        let is_shared = self.proxy_protocol.is_none();
        let stream = if !takes_http2 {
            None
        } else if is_shared && self.transport.lacks_http1() {
            Some(self.stream(peer, true, limit).await?)
        } else {
            let stream = self.shared.take().filter(|stream| stream.takes_tunnels());
            stream.inspect(|_| self.tally.count(|c| c.reused += 1))
        };
        match stream.filter(|stream| stream.takes_tunnels()) {
            Some(stream) => Ok(stream),
            // Where HTTP/2 is all that the upstream speaks, it refuses the handshake without it, and is healthy.
            None => self.own_connection(peer, limit).await.map_err(|failure| match failure {
                Failure::TlsHandshake => Failure::NoWebsocket,
                other => other,
            }),
        }
    }

    /// Opens a connection of HTTP/1.1 within `limit`, which names its client if connections do.
    ///
    /// # Errors
    /// Why no connection could be opened.
    async fn own_connection(
        &self,
        peer: &Peer,
        limit: Duration,
    ) -> Result<Box<dyn UpstreamStream>, Failure> {
        let version = self.proxy_protocol;
        let header = version.map(|version| proxy_protocol::of_client(version, peer));
        let header = header.unwrap_or_default();
        let stream = self.transport.connect_http1(limit, &header).await?;
        self.tally.count(|c| c.opened += 1);
        let open = Open::new(&self.connections);
        let opened = Opened::Stream(stream, Protocol::Http1);
        Ok(self.protocols.begin(opened, open).await?.stream)
    }

    /// Opens a connection, and remembers the protocol that the upstream has chosen.
    async fn open(&self, deadline: Instant) -> Result<Box<dyn UpstreamStream>, Failure> {
        let limit = deadline.saturating_duration_since(Instant::now());
        let opened = self.transport.connect(limit, &[]).await?;
        self.tally.count(|c| c.opened += 1);
        self.protocol.set(Some(opened.protocol()));
        let open = Open::new(&self.connections);
        let begun = timeout_at(deadline, self.protocols.begin(opened, open)).await;
        let Begun { stream, shared } = begun.map_err(|_| Failure::ConnectTimeout)??;
        if let Some(connection) = shared {
            self.shared.add(connection);
        }
        Ok(stream)
    }

    /// Returns the slots of the upstream's requests.
    pub(super) fn slots(&self) -> &Slots {
        &self.state.slots
    }

    /// Returns whether requests may go to the upstream, as far as health checks and earlier requests tell.
    pub(super) fn is_in_rotation(&self, now: Instant) -> bool {
        let is_down = self.state.verdict.is_down();
        if self.was_down.replace(is_down) && !is_down {
            self.health.on_return(now);
        }
        !is_down && self.health.is_in_rotation(now)
    }

    /// Returns the number of requests that the upstream serves.
    pub(super) fn active(&self) -> u64 {
        self.active.get()
    }

    /// Returns the share of its weight that the upstream gets, percent.
    pub(super) fn share(&self, slow_start: Duration, now: Instant) -> u64 {
        self.health.share(slow_start, now)
    }

    pub(super) fn state(&self, now: Instant) -> UpstreamCounters {
        UpstreamCounters {
            active: self.active.get(),
            connections: self.connections.get(),
            idle: (self.protocols.idle.len() + self.shared.idle()) as u64,
            out: u64::from(self.health.is_out(now)),
            failures: self.health.failures(),
            // The other threads report nothing, so that the sums are right.
            down: u64::from(self.checks.borrow().is_some() && self.state.verdict.is_down()),
            checks: self.checks_made.get(),
            checks_failed: self.checks_failed.get(),
        }
    }
}

/// A request that an upstream serves, from its assignment until the value is dropped.
#[derive(Debug)]
pub(super) struct ActiveRequest {
    /// Pool that has assigned the request.
    pool: Arc<PoolDefinition>,
    upstream: Rc<Upstream>,
    /// Time until which the request, a trial without a result, has the upstream for itself; `None` if it is no such trial.
    trial_until: Cell<Option<Instant>>,
    _slot: Slot,
}

impl ActiveRequest {
    pub(super) fn new(
        pool: &Arc<PoolDefinition>,
        upstream: &Rc<Upstream>,
        slot: Slot,
        now: Instant,
    ) -> ActiveRequest {
        upstream.active.set(upstream.active.get() + 1);
        ActiveRequest {
            pool: Arc::clone(pool),
            upstream: Rc::clone(upstream),
            trial_until: Cell::new(upstream.health.begin_trial(now)),
            _slot: slot,
        }
    }

    pub(super) fn upstream(&self) -> &Rc<Upstream> {
        &self.upstream
    }

    /// Notes that the upstream has responded. A trial ends with that, however long the body lasts.
    pub(super) fn on_success(&self) {
        self.end_trial();
        self.upstream.health.on_success();
    }

    /// Counts the failure of the request. Its upstream's health suffers if `blame` and the upstream is at fault.
    pub(super) fn on_failure(&self, failure: Failure, blame: bool) {
        let upstream = &self.upstream;
        upstream.tally.count(|c| c.failures[failure] += 1);
        if blame && failure.blames_upstream() {
            let is_trial = self.trial_until.get().is_some();
            upstream.health.on_failure(failure, is_trial, &self.pool.name, upstream.label());
        }
    }

    fn end_trial(&self) {
        if let Some(until) = self.trial_until.take() {
            self.upstream.health.end_trial(until);
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.end_trial();
        self.upstream.active.set(self.upstream.active.get() - 1);
    }
}
