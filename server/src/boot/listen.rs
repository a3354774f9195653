//! Listeners, bound for every worker of their group.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use sluicegate_cc::Registry;
use sluicegate_config::{Group, Listener};
use sluicegate_dataplane::{Acquired, BindError, Inherited, ListenerFacts, ListenerId, Payloads};

use super::bind_tcp::{self, TcpSockets};
use super::error::{BootError, ListenerError};
use super::listener_settings::prepare;
use super::shared::Shared;
use crate::clock;
use crate::quic::config_snapshot::{BoundAddress, BoundListener, Protocols};
use crate::quic::transport::Alternatives;

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

    /// Returns the identity of the next address of a listener.
    fn take_id(&mut self, listener: &str) -> Result<ListenerId, BootError> {
        let id = ListenerId(self.next_id);
        let next = self.next_id.checked_add(1);
        let too_many = || BootError::listener(listener, ListenerError::TooManyAddresses);
        self.next_id = next.ok_or_else(too_many)?;
        Ok(id)
    }

    /// Takes the sockets of TCP of an address. Returns whether there are any.
    fn add_tcp(&mut self, listener: &Listener, id: ListenerId, sockets: Vec<TcpListener>) -> bool {
        let has_tcp = !sockets.is_empty();
        if has_tcp {
            self.tcp.push(TcpSockets {
                group: listener.group.clone(),
                listener: id,
                sockets,
            });
        }
        has_tcp
    }

    /// Returns the sockets of TCP of the next worker of a group, each with its listener.
    pub(super) fn take_tcp(&mut self, group: &str) -> Vec<(ListenerId, TcpListener)> {
        let of_group = self.tcp.iter_mut().filter(|tcp| tcp.group == group);
        of_group
            .filter_map(|tcp| Some((tcp.listener, tcp.sockets.pop()?)))
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
            for bound in bound.filter(|b| b.at.id == facts.listener) {
                bound.at.payloads = facts.payloads.clone();
            }
        }
    }
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
    let settings = prepare(listener, registry, config, secrets, &before)?;
    for address in &listener.addresses {
        let id = announced.take_id(&listener.name)?;
        let workers = bound_listeners.workers;
        let (local, has_tcp) = match &mut bound_listeners.bound {
            Bound::Sockets(sockets) => {
                let opened =
                    open_address(listener, id, *address, workers, &mut announced.inherited);
                let (bound, tcp) =
                    opened.map_err(|error| BootError::listener(&listener.name, error))?;
                let local = bound.local_addr();
                sockets.push(bound);
                (local, announced.add_tcp(listener, id, tcp))
            }
            Bound::Port(addresses) => {
                addresses.push((id, *address));
                let mut tcp = Vec::new();
                if listener.tcp {
                    let bound = bind_tcp::bind_beside_port(*address, workers);
                    tcp = bound.map_err(|e| BootError::listener(&listener.name, e))?;
                }
                (*address, announced.add_tcp(listener, id, tcp))
            }
        };
        announced.lines.push(Line {
            id,
            facts: None,
            listener: listener.name.clone(),
            address: local,
            group: group.name.clone(),
            algorithm: settings.selection.own(),
            rules: listener.congestion_rules.len(),
        });
        announced.bound_listeners.push(BoundListener {
            name: listener.name.clone(),
            at: BoundAddress {
                id,
                group: group.name.clone(),
                local,
                protocols: if has_tcp {
                    Protocols::QuicAndTcp
                } else {
                    Protocols::Quic
                },
                payloads: Payloads::default(),
            },
            settings: settings.clone(),
        });
    }
    for address in &listener.http_addresses {
        let id = announced.take_id(&listener.name)?;
        let bound = bind_tcp::bind_http(*address, bound_listeners.workers);
        let bound = bound.map_err(|error| BootError::listener(&listener.name, error))?;
        let local = bound.first().and_then(|socket| socket.local_addr().ok());
        announced.add_tcp(listener, id, bound);
        announced.bound_listeners.push(BoundListener {
            name: listener.name.clone(),
            at: BoundAddress {
                id,
                group: group.name.clone(),
                local: local.unwrap_or(*address),
                protocols: Protocols::Http,
                payloads: Payloads::default(),
            },
            settings: settings.clone(),
        });
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
