//! Listeners, bound for every worker of their group.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use sluicegate_cc::Registry;
use sluicegate_config::{Config, Group, Listener, Tls};
use sluicegate_dataplane::{Acquired, BindError, Inherited, ListenerFacts, ListenerId, Payloads};

use super::bind_tcp::{self, TcpSockets};
use super::error::{BootError, ListenerError};
use super::shared::Shared;
use crate::acme::Store;
use crate::clock;
use crate::http::trusted_proxies::TrustedProxies;
use crate::observe::certificates::Certificate;
use crate::quic::config_snapshot::{BoundListener, Identities};
use crate::quic::secrets::Secrets;
use crate::quic::selection::Selection;
use crate::quic::transport::{Alternatives, Identity, TransportError, alternatives, server_config};

/// Time for a port in use to become free.
const BIND_LIMIT: Duration = Duration::from_secs(1);
/// Attempts to find a port that is free for UDP and for TCP.
const FREE_PORTS: usize = 32;
/// Pause between two attempts to bind.
const BIND_STEP: Duration = Duration::from_millis(20);

/// The bound listeners of a group.
pub(super) struct BoundListeners {
    /// Number of the group's workers: each listener has a socket for each.
    pub(super) workers: usize,
    /// Sockets or port of the listening addresses.
    pub(super) bound: Bound,
}

/// Sockets or port of the listening addresses of a group.
pub(super) enum Bound {
    /// Sockets of each.
    Sockets(Vec<Acquired>),
    /// A port that the server drives itself, still to be opened with these addresses.
    Port(Vec<(ListenerId, SocketAddr)>),
}

/// The listeners of all groups that are bound so far.
#[derive(Default)]
pub(super) struct Announced {
    next_id: u16,
    /// Sockets that a service manager passed and no listener has taken.
    pub(super) inherited: Inherited,
    pub(super) lines: Vec<Line>,
    pub(super) bound_listeners: Vec<BoundListener>,
    /// Sockets of TCP, until the groups take them.
    pub(super) tcp: Vec<TcpSockets>,
}

/// Facts of a listening address, logged once its workers serve.
pub(super) struct Line {
    id: ListenerId,
    /// Facts of its sockets, once its group is open.
    pub(super) facts: Option<ListenerFacts>,
    pub(super) listener: String,
    pub(super) address: SocketAddr,
    pub(super) group: String,
    pub(super) algorithm: &'static str,
    pub(super) rules: usize,
}

impl Announced {
    /// Begins with the sockets that a service manager passed (LISTEN_FDS).
    pub(super) fn inherit() -> Announced {
        // An error means that what was passed is for another process, or makes no sense.
        let passed = sd_notify::listen_fds().map(Inherited::duplicate);
        Announced {
            inherited: passed.unwrap_or_default(),
            ..Announced::default()
        }
    }

    /// Takes the sockets of TCP of an address, if there are any; `https_port` for those without TLS.
    fn add_tcp(
        &mut self,
        listener: &Listener,
        address: SocketAddr,
        https_port: Option<u16>,
        sockets: Vec<TcpListener>,
    ) {
        if !sockets.is_empty() {
            self.tcp.push(TcpSockets {
                group: listener.group.clone(),
                listener: listener.name.clone(),
                address,
                https_port,
                sockets,
            });
        }
    }

    /// Returns the sockets of TCP of the next worker of a group, each with the index of its listening address.
    pub(super) fn take_tcp(&mut self, group: &str) -> Vec<(usize, TcpListener)> {
        let all = self.tcp.iter_mut().enumerate();
        let of_group = all.filter(|(_, tcp)| tcp.group == group);
        of_group
            .filter_map(|(index, tcp)| Some((index, tcp.sockets.pop()?)))
            .collect()
    }

    /// Takes the facts of listeners whose group was opened.
    pub(super) fn add_facts(&mut self, listeners: &[ListenerFacts]) {
        for facts in listeners {
            for line in self.lines.iter_mut().filter(|l| l.id == facts.listener) {
                line.address = facts.address;
                line.facts = Some(facts.clone());
            }
            let bound = self.bound_listeners.iter_mut();
            for bound in bound.filter(|b| b.id == facts.listener) {
                bound.payloads = facts.payloads.clone();
            }
        }
    }
}

/// Returns everything of a listener that needs no port, checked. Certificates that `before` has are not parsed again; it was made
/// with the same settings.
pub(super) fn prepare(
    listener: &Listener,
    registry: &Registry,
    config: &Config,
    secrets: &Secrets,
    before: &Alternatives,
) -> Result<(Selection, Identities), BootError> {
    let prepared = try_prepare(listener, registry, config, secrets, before);
    prepared.map_err(|error| BootError::listener(&listener.name, error))
}

fn try_prepare(
    listener: &Listener,
    registry: &Registry,
    config: &Config,
    secrets: &Secrets,
    before: &Alternatives,
) -> Result<(Selection, Identities), ListenerError> {
    let selection = Selection::of(listener, registry, secrets.congestion_rules_key())?;
    let name = &listener.name;
    let mut given = listener.tls.iter();
    let load = |tls: &Tls| identity(tls, config);
    let first = match given.next() {
        Some(tls) => load(tls),
        None => Identity::self_signed(),
    }?;
    let others = given.map(load).collect::<Result<Vec<_>, _>>()?;
    let all = [&first].into_iter().chain(&others);
    // A self-signed one stands in no table.
    let automatic = { listener.tls.iter() }.map(|tls| !tls.acme.is_empty());
    let all = all.zip(automatic.chain([false]));
    let obtained = all.filter(|(identity, _)| !identity.is_placeholder());
    let expiries = obtained.map(|(identity, automatic)| {
        let (first_name, not_after) = identity.expiry()?;
        Ok(Certificate {
            listener: name.clone(),
            name: first_name,
            not_after,
            automatic,
        })
    });
    let expiries = expiries.collect::<Result<Vec<_>, TransportError>>()?;
    let others = alternatives(
        (name, secrets),
        &others,
        &config.quic,
        &config.limits,
        before,
    )?;
    server_config(
        name,
        (&first, &others),
        &config.quic,
        &config.limits,
        secrets,
    )?;
    let identities = Identities {
        first,
        others,
        expiries,
    };
    Ok((selection, identities))
}

/// Returns a certificate from its files, or the one that ACME has obtained; until there is one, a self-signed one.
fn identity(tls: &Tls, config: &Config) -> Result<Identity, TransportError> {
    if let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) {
        return Identity::load(certificate, key, config.server.open_secrets);
    }
    let obtained = Store::of(config).map(|store| store.certificate(&tls.acme));
    let obtained = obtained.transpose().map_err(|cause| TransportError::File {
        path: format!("certificate of ACME for {}", tls.acme.join(", ")),
        cause,
    })?;
    let Some((pem, path)) = obtained.flatten() else {
        return Identity::placeholder(&tls.acme);
    };
    Ok(Identity {
        chain: pem.clone().into_bytes(),
        key: pem.into_bytes(),
        origin: path.display().to_string(),
    })
}

/// Binds a listener's addresses for every worker of `group`.
pub(super) fn open_listener(
    listener: &Listener,
    group: &Group,
    registry: &Registry,
    shared: &Shared,
    announced: &mut Announced,
    bound_listeners: &mut BoundListeners,
) -> Result<(), BootError> {
    let (config, secrets) = (&shared.config, &shared.secrets);
    let before = Alternatives::default();
    let (selection, identities) = prepare(listener, registry, config, secrets, &before)?;
    let identities = Arc::new(identities);
    let trusted_proxies = Arc::new(TrustedProxies::of(listener));
    for address in &listener.addresses {
        let id = ListenerId(announced.next_id);
        let next = announced.next_id.checked_add(1);
        announced.next_id = next
            .ok_or_else(|| BootError::listener(&listener.name, ListenerError::TooManyAddresses))?;
        let workers = bound_listeners.workers;
        let local = match &mut bound_listeners.bound {
            Bound::Sockets(sockets) => {
                let opened =
                    open_address(listener, id, *address, workers, &mut announced.inherited);
                let (bound, tcp) =
                    opened.map_err(|error| BootError::listener(&listener.name, error))?;
                let local = bound.local_addr();
                sockets.push(bound);
                announced.add_tcp(listener, local, None, tcp);
                local
            }
            Bound::Port(addresses) => {
                addresses.push((id, *address));
                if listener.tcp {
                    let bound = bind_tcp::bind_beside_port(*address, workers);
                    let bound = bound.map_err(|e| BootError::listener(&listener.name, e))?;
                    announced.add_tcp(listener, *address, None, bound);
                }
                *address
            }
        };
        announced.lines.push(Line {
            id,
            facts: None,
            listener: listener.name.clone(),
            address: local,
            group: group.name.clone(),
            algorithm: selection.own(),
            rules: listener.congestion_rules.len(),
        });
        announced.bound_listeners.push(BoundListener {
            id,
            name: listener.name.clone(),
            group: group.name.clone(),
            trusted_proxies: Arc::clone(&trusted_proxies),
            selection: selection.clone(),
            payloads: Payloads::default(),
            identities: Arc::clone(&identities),
        });
    }
    open_http(listener, bound_listeners.workers, announced)
}

/// Binds the addresses without TLS of a listener whose other addresses are bound.
fn open_http(
    listener: &Listener,
    workers: usize,
    announced: &mut Announced,
) -> Result<(), BootError> {
    let mut of_listener = announced.lines.iter();
    let first = of_listener.find(|line| line.listener == listener.name);
    let https_port = first.map(|line| line.address.port());
    for address in &listener.http_addresses {
        let bound = bind_tcp::bind_http(*address, workers);
        let bound = bound.map_err(|error| BootError::listener(&listener.name, error))?;
        let local = bound.first().and_then(|socket| socket.local_addr().ok());
        announced.add_tcp(listener, local.unwrap_or(*address), https_port, bound);
    }
    Ok(())
}

/// Binds an address for UDP, unless a service manager has, and for TCP if the listener has it. A free port is one that is free for
/// both.
fn open_address(
    listener: &Listener,
    id: ListenerId,
    address: SocketAddr,
    workers: usize,
    inherited: &mut Inherited,
) -> Result<(Acquired, Vec<TcpListener>), ListenerError> {
    let mut attempts = if address.port() == 0 { FREE_PORTS } else { 1 };
    loop {
        attempts -= 1;
        let bound = match inherited.acquire(id, address, workers)? {
            None => bind_with_retries(id, address, workers)?,
            Some(inherited) => inherited,
        };
        if !listener.tcp {
            return Ok((bound, Vec::new()));
        }
        match bind_tcp::bind(bound.local_addr(), workers) {
            Ok(tcp) => return Ok((bound, tcp)),
            Err(error) if error.is_in_use() && attempts > 0 => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Binds a listener. A port in use gets a second to become free. A process that used io_uring and was killed holds its sockets for
/// a moment longer than it lives, and a supervisor starts the next one at once.
fn bind_with_retries(
    id: ListenerId,
    address: SocketAddr,
    workers: usize,
) -> Result<Acquired, BindError> {
    let limit = clock::now() + BIND_LIMIT;
    loop {
        match Acquired::bind(id, address, workers) {
            Err(BindError::InUse { .. }) if clock::now() < limit => {
                std::thread::park_timeout(BIND_STEP);
            }
            result => return result,
        }
    }
}
