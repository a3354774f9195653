//! A worker's endpoint and its turn, without a thread and without sockets.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use sluicegate::h3::{self, SessionContext};
use sluicegate::http::route::Site;
use sluicegate::quic::endpoint::Endpoint;
use sluicegate::quic::secrets::Secrets;
use sluicegate::quic::selection::{Choice, Selection};
use sluicegate::quic::settings::{Lease, Listener, Settings};
use sluicegate::quic::transport::{Alternatives, server_config};
use sluicegate::worker::{SERVICE_BUDGET, STATELESS_BUDGET, TRANSMIT_BUDGET};
use sluicegate_cc::{Algorithm, Options, Registry};
use sluicegate_config::Config;
use sluicegate_dataplane::{Budget, Ecn, Egress, ListenerId, NoRoom, Payloads, RxMeta, TxMeta};

use crate::virtual_net::tls;

/// Timers per turn: all that are due.
const TIMERS: usize = usize::MAX;

/// A worker that serves what `sluicegate run` serves without a file: as many bytes below `/bytes/` as the path asks for.
pub(super) struct Worker {
    endpoint: Endpoint,
    /// Whether the last turn left work for the next.
    more: bool,
    /// The listener whose socket is full.
    blocked: Option<ListenerId>,
}

impl Worker {
    /// Returns a worker with two listeners, which [`listener_of`] tells apart, after `change` to the configuration. Each listener
    /// has the configured algorithm, or the one given for it with its options.
    pub(super) fn new(
        now: Instant,
        change: impl FnOnce(&mut Config),
        [first, second]: [Option<(Algorithm, Options)>; 2],
    ) -> anyhow::Result<Self> {
        let mut config = Config::embedded();
        change(&mut config);
        let secrets = Arc::new(Secrets::in_memory());
        let identity = tls::identity()?;
        let listener = config.listeners.first().context("no listener")?;
        let registry = Registry::builtin();
        let listener = |algorithm: Option<(Algorithm, Options)>| -> anyhow::Result<Listener> {
            let selection = match algorithm {
                Some((algorithm, options)) => {
                    Selection::new(Vec::new(), choice(algorithm, options), None)
                }
                None => Selection::of(listener, &registry, [0; 32], None)?,
            };
            let mut transport = server_config(
                "main",
                (identity, &Alternatives::default()),
                &config.quic,
                &config.limits,
                &secrets,
            )?;
            transport.enable_ecn(listener.ecn);
            Ok(Listener {
                lease: Lease::default(),
                name: listener.name.as_str().into(),
                local: listener.addresses[0],
                trusted_proxies: Arc::default(),
                selection,
                payloads: Payloads::default(),
                config: transport,
            })
        };
        let listeners = HashMap::from([
            (ListenerId(0), listener(first)?),
            (ListenerId(1), listener(second)?),
        ]);
        let settings = Settings {
            listeners,
            sessions: SessionContext::new(
                Arc::new(Site::compile(&config.routes, &config.limits)?),
                h3::config(&config.limits)?,
                now,
            ),
            limits: config.limits,
            quic: config.quic,
            secrets,
            used_tokens: Arc::default(),
            tracing: None,
            worker: 0,
            workers: 1,
        };
        Ok(Self {
            endpoint: Endpoint::new(settings, now),
            more: false,
            blocked: None,
        })
    }

    /// Lets the socket of the listener at `address` take nothing from now on.
    pub(super) fn block(&mut self, address: SocketAddr) {
        self.blocked = Some(listener_of(address));
    }

    /// Takes one datagram.
    pub(super) fn receive(
        &mut self,
        (from, to): (SocketAddr, SocketAddr),
        (datagram, ecn): (&mut [u8], Ecn),
        now: Instant,
    ) {
        let meta = RxMeta {
            listener: listener_of(to),
            peer: from,
            local: to,
            ecn,
        };
        self.endpoint
            .ingest(&meta, datagram, now, sluicegate::clock::unix());
    }

    /// Does the rest of a turn, and hands each datagram to `send`.
    pub(super) fn turn(&mut self, now: Instant, send: impl FnMut(&TxMeta, &[u8])) {
        self.endpoint.on_deadline(TIMERS, now);
        let mut out = Out {
            budget: TRANSMIT_BUDGET,
            blocked: self.blocked,
            room: Vec::new(),
            send,
        };
        self.endpoint.service(SERVICE_BUDGET, now);
        self.more =
            self.endpoint.emit(&mut out, STATELESS_BUDGET, now) || self.endpoint.has_service();
    }

    /// Returns when the next turn is due without a datagram.
    pub(super) fn next_turn(&self, now: Instant) -> Option<Instant> {
        if self.more {
            return Some(now);
        }
        self.endpoint.next_deadline()
    }

    /// Returns whether a handshake is done.
    pub(super) fn has_established(&self) -> bool {
        self.endpoint.counters.established > 0
    }
}

/// Returns the choice of an algorithm.
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

/// Takes what the endpoint emits.
struct Out<F> {
    budget: Budget,
    blocked: Option<ListenerId>,
    room: Vec<u8>,
    send: F,
}

impl<F: FnMut(&TxMeta, &[u8])> Egress for Out<F> {
    fn room(&mut self, listener: ListenerId, size: usize) -> Result<&mut [u8], NoRoom> {
        if self.blocked == Some(listener) {
            return Err(NoRoom::Blocked);
        }
        if self.budget.is_spent() {
            return Err(NoRoom::Budget);
        }
        self.room.resize(size, 0);
        Ok(&mut self.room)
    }

    fn commit(&mut self, len: usize, meta: &TxMeta) {
        self.budget.spend(len);
        (self.send)(meta, &self.room[..len]);
    }
}
