//! A worker's endpoint and its turn, without a thread and without sockets.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use sluicegate::h3::{self, Http3Session, SessionContext};
use sluicegate::worker::{SERVICE_BUDGET, STATELESS_BUDGET, TRANSMIT_BUDGET};
use sluicegate_base::observe::account::Wait;
use sluicegate_base::observe::connections::{ConnectionFilter, Order};
use sluicegate_base::secrets::Secrets;
use sluicegate_base::tls::{Alternatives, Identity, ListenerTls};
use sluicegate_cc::{Algorithm, Options, Registry};
use sluicegate_config::Config;
use sluicegate_dataplane::{Budget, Ecn, Egress, ListenerId, NoRoom, Payloads, RxMeta, TxMeta};
use sluicegate_http::route::Site;
use sluicegate_quic::cid::CidSchemes;
use sluicegate_quic::congestion::selection::{Choice, Selection};
use sluicegate_quic::endpoint::Endpoint;
use sluicegate_quic::endpoint::inspect::ConnectionSearch;
use sluicegate_quic::settings::{Lease, Listener, Settings};
use sluicegate_quic::transport::server_config;

use super::SimulationError;
use super::host::SERVER;
use super::sender::{Counts, Sender};
use super::tls;
use super::watch::View;
use crate::counted::counted;

/// Timers per turn: all that are due.
const TIMERS: usize = usize::MAX;

/// A worker that serves what `sluicegate run` serves without a file: as many bytes below `/bytes/` as the path asks for.
pub(super) struct Worker {
    endpoint: Endpoint<Http3Session>,
    /// Whether the last turn left work for the next.
    more: bool,
    out: Out,
    /// Whether its instructions are counted.
    is_counted: bool,
}

impl Worker {
    /// Returns a worker with two listeners, which [`listener_of`] tells apart, after `change` to the configuration. Each listener
    /// has the configured algorithm, or the one given for it with its options.
    pub(super) fn new(
        now: Instant,
        change: impl FnOnce(&mut Config),
        algorithms: [Option<(Algorithm, Options)>; 2],
    ) -> anyhow::Result<Self> {
        Self::with_identity(tls::identity()?, now, change, algorithms)
    }

    /// Returns such a worker with a certificate of its own.
    pub(super) fn with_identity(
        identity: &Identity,
        now: Instant,
        change: impl FnOnce(&mut Config),
        [first, second]: [Option<(Algorithm, Options)>; 2],
    ) -> anyhow::Result<Self> {
        let mut config = Config::embedded();
        change(&mut config);
        let secrets = Arc::new(Secrets::in_memory());
        let listener = config.listeners.first().context("no listener")?;
        let registry = Registry::builtin();
        let listener =
            |algorithm: Option<(Algorithm, Options)>| -> anyhow::Result<Listener<Http3Session>> {
                let selection = match algorithm {
                    Some((algorithm, options)) => {
                        Selection::new(Vec::new(), choice(algorithm, options), None)
                    }
                    None => Selection::of(listener, &registry, [0; 32], None)?,
                };
                let tls = ListenerTls {
                    listener: "main",
                    secrets: &secrets,
                    quic: &config.quic,
                    limits: &config.limits,
                };
                let others = Alternatives::default();
                let mut transport = server_config::<Http3Session>(&tls, identity, &others)?;
                transport.enable_ecn(listener.ecn);
                Ok(Listener {
                    lease: Lease::default(),
                    name: listener.name.as_str().into(),
                    local: listener.addresses[0],
                    application: Arc::default(),
                    selection,
                    payloads: Payloads::default(),
                    config: transport,
                })
            };
        let listeners =
            HashMap::from([(ListenerId(0), listener(first)?), (ListenerId(1), listener(second)?)]);
        let settings = Settings {
            listeners,
            shared: SessionContext::new(
                Arc::new(Site::compile(&config.routes, &config.limits)?),
                h3::config(&config.limits)?,
                now,
            ),
            limits: config.limits,
            quic: config.quic,
            cid_scheme: CidSchemes::plain().scheme(),
            secrets,
            used_tokens: Arc::default(),
            tracing: None,
            worker: 0,
            workers: 1,
        };
        Ok(Self {
            endpoint: Endpoint::new(settings, now),
            more: false,
            out: Out::new(),
            is_counted: false,
        })
    }

    /// Lets the socket of the listener at `address` take nothing from now on.
    pub(super) fn block(&mut self, address: SocketAddr) {
        self.out.blocked = Some(listener_of(address));
    }

    /// Has the instructions of all that follows counted.
    pub(super) fn count(&mut self) {
        self.is_counted = true;
    }
}

impl Sender for Worker {
    fn receive(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        datagram: &mut [u8],
        ecn: Ecn,
        now: Instant,
    ) {
        let meta = RxMeta { listener: listener_of(to), peer: from, local: to, ecn };
        let endpoint = &mut self.endpoint;
        count_if(self.is_counted, || {
            endpoint.ingest(&meta, datagram, now, sluicegate_base::clock::unix());
        });
    }

    fn turn(
        &mut self,
        now: Instant,
        mut send: impl FnMut(SocketAddr, Ecn, &[u8]),
    ) -> Result<(), SimulationError> {
        let Self { endpoint, out, .. } = self;
        out.clear();
        self.more = count_if(self.is_counted, || {
            endpoint.on_deadline(TIMERS, now);
            endpoint.service(SERVICE_BUDGET, now);
            endpoint.emit(out, STATELESS_BUDGET, now) || endpoint.has_service()
        });
        let mut start = 0;
        for (meta, len) in &self.out.sent {
            send(meta.peer, meta.ecn, &self.out.bytes[start..start + len]);
            start += len;
        }
        Ok(())
    }

    fn fill_socket(&mut self) {
        self.block(SERVER);
    }

    fn has_more(&self) -> bool {
        self.more
    }

    fn next_turn(&mut self, now: Instant) -> Option<Instant> {
        if self.more {
            return Some(now);
        }
        self.endpoint.next_deadline()
    }

    fn has_established(&self) -> bool {
        self.endpoint.counters.established > 0
    }

    fn waits(&self, now: Instant) -> Vec<(Wait, Duration)> {
        let mut oldest = ConnectionSearch::new(ConnectionFilter::default(), Order::Age, 1);
        let found = self.endpoint.inspect(&mut oldest, usize::MAX, now).unwrap_or_default();
        found.shown.into_iter().next().map_or_else(Vec::new, |(_, one)| one.spent)
    }

    fn counts(&self, view: Option<View>) -> Counts {
        view.map_or_else(Counts::default, |view| Counts {
            cwnd: view.cwnd,
            sent: view.sent_packets,
            lost: view.lost_packets,
            srtt: view.srtt,
            state: Some(view.state.name()),
        })
    }
}

fn choice(algorithm: Algorithm, options: Options) -> Choice {
    Choice {
        algorithm: algorithm.name,
        model_based: algorithm.model_based,
        scalable: algorithm.scalable,
        factory: quiche::cc::Factory::new(algorithm, options),
    }
}

/// Returns the listener of an address: 0 at port 443, 1 at any other.
fn listener_of(address: SocketAddr) -> ListenerId {
    ListenerId(u16::from(address.port() != 443))
}

/// Does `work`, and has its instructions counted if `is_counted`.
fn count_if<T>(is_counted: bool, work: impl FnOnce() -> T) -> T {
    if is_counted { counted(work) } else { work() }
}

/// Keeps what the endpoint emits in a turn.
struct Out {
    budget: Budget,
    /// The listener whose socket is full.
    blocked: Option<ListenerId>,
    /// The datagrams, one after the other, and room for the next.
    bytes: Vec<u8>,
    /// Bytes of the datagrams.
    end: usize,
    /// Metadata and length of each datagram.
    sent: Vec<(TxMeta, usize)>,
}

impl Out {
    const fn new() -> Self {
        Self { budget: TRANSMIT_BUDGET, blocked: None, bytes: Vec::new(), end: 0, sent: Vec::new() }
    }

    /// Begins a turn.
    fn clear(&mut self) {
        self.budget = TRANSMIT_BUDGET;
        self.end = 0;
        self.sent.clear();
    }
}

impl Egress for Out {
    fn room(&mut self, listener: ListenerId, size: usize) -> Result<&mut [u8], NoRoom> {
        if self.blocked == Some(listener) {
            return Err(NoRoom::Blocked);
        }
        if self.budget.is_spent() {
            return Err(NoRoom::Budget);
        }
        let room = self.end..self.end + size;
        if self.bytes.len() < room.end {
            self.bytes.resize(room.end, 0);
        }
        Ok(&mut self.bytes[room])
    }

    fn commit(&mut self, len: usize, meta: &TxMeta) {
        self.budget.spend(len);
        self.end += len;
        self.sent.push((*meta, len));
    }
}
