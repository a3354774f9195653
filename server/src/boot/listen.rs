//! Listeners, bound for every worker of their group.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use sluicegate_config::{Group, Listener};
use sluicegate_dataplane::{
    Acquired, BindError, Group as OpenedGroup, ListenerFacts, ListenerId, Payloads, Steering,
    TakenSockets, open_group,
};
use sluicegate_quic::settings::Lease;

use super::bind_tcp::{self, TcpBindError, TcpSockets};
use super::error::{BootError, ListenerError};
use super::passed::Passed;
use super::until_free::until_free;
use crate::snapshot::{BoundAddress, BoundListener, ListenerSettings, Protocols};

/// Attempts to find a port that is free for UDP and for TCP.
const FREE_PORTS: usize = 32;

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
    /// Such a port that is open already, and keeps its addresses.
    OpenPort,
}

/// A bound address of a configuration in effect or before, which another one may keep.
pub(super) struct RetainedAddress {
    /// Name of the listener.
    pub(super) name: String,
    pub(super) at: BoundAddress,
    pub(super) state: RetainedState,
}

/// State of a bound address at a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetainedState {
    /// The configuration in effect has it.
    InEffect,
    /// It was removed: its connections drain, and its sockets of TCP are closed.
    Draining,
    /// Workers close its sockets of QUIC, so nobody may have it again before they have.
    Closing,
}

/// The listeners of all groups that are bound so far.
#[derive(Default)]
pub(super) struct ListenerPlan {
    next_id: u16,
    /// Bound addresses that no listener has taken.
    pub(super) kept: Vec<RetainedAddress>,
    /// Identities of the bound addresses.
    ids: Vec<ListenerId>,
    /// Sockets that a service manager passed.
    passed: Arc<Passed>,
    /// How the kernel steers to the sockets of the process before, if there is one.
    steering: Option<Steering>,
    /// Those of QUIC, of each address.
    pub(super) taken: Vec<TakenSockets>,
    pub(super) lines: Vec<ListenerLogLine>,
    pub(super) bound_listeners: Vec<BoundListener>,
    /// Sockets of TCP, until the groups take them.
    pub(super) tcp: Vec<TcpSockets>,
}

/// Facts of a listening address, logged once its workers serve.
pub(super) struct ListenerLogLine {
    id: ListenerId,
    /// Facts of its sockets, once its group is open.
    pub(super) facts: Option<ListenerFacts>,
    pub(super) listener: String,
    pub(super) address: SocketAddr,
    pub(super) group: String,
    pub(super) algorithm: &'static str,
    pub(super) rules: usize,
}

impl ListenerLogLine {
    /// Logs the facts of its sockets, if they are new.
    pub(super) fn log_sockets(&self) {
        if let Some(facts) = &self.facts {
            tracing::info!(
                listener = %self.listener, address = %self.address,
                receive_buffer = facts.receive_buffer, send_buffer = facts.send_buffer,
                gso = facts.gso, gro = facts.gro, largest_payload = facts.payloads.largest(),
                "sockets opened"
            );
        }
    }
}

impl ListenerPlan {
    /// Begins with the sockets that a service manager passed, or the process before, for which the kernel steers by this rule.
    pub(super) fn inherit(passed: Arc<Passed>, steering: Steering) -> ListenerPlan {
        let steering = passed.is_of_the_process_before().then_some(steering);
        ListenerPlan { passed, steering, ..ListenerPlan::default() }
    }

    /// Begins with addresses that are bound already, `next_id`, the number after that of the address bound last, and the sockets that a
    /// service manager passed.
    pub(super) fn keeping(
        kept: Vec<RetainedAddress>,
        next_id: u16,
        passed: Arc<Passed>,
    ) -> ListenerPlan {
        ListenerPlan {
            next_id,
            ids: kept.iter().map(|kept| kept.at.id).collect(),
            kept,
            passed,
            ..ListenerPlan::default()
        }
    }

    /// Returns whether sockets are those of the process before, which reads them until this one does.
    pub(super) fn is_taking_over(&self) -> bool {
        self.steering.is_some()
    }

    /// Forgets the sockets that were passed: each that is used is held by its listener.
    pub(super) fn forget_passed(&mut self) {
        self.passed = Arc::default();
        self.steering = None;
    }

    /// Returns the number for the address to be bound next.
    pub(super) fn next_id(&self) -> u16 {
        self.next_id
    }

    /// Returns an identity that no other address has.
    fn take_id(&mut self) -> Result<ListenerId, ListenerError> {
        for _ in 0..=u16::MAX {
            let id = ListenerId(self.next_id);
            self.next_id = self.next_id.wrapping_add(1);
            if !self.ids.contains(&id) {
                self.ids.push(id);
                return Ok(id);
            }
        }
        Err(ListenerError::TooManyAddresses)
    }

    /// Takes a bound address that a listener may keep: with the same group and address, preferably of the same name. Port 0 is any
    /// port, so it must be of the same name.
    fn keep(
        &mut self,
        listener: &Listener,
        address: SocketAddr,
        has_quic: bool,
    ) -> Option<RetainedAddress> {
        let fits = |kept: &RetainedAddress| {
            (kept.at.configured == address || kept.at.local == address)
                && kept.at.group == listener.group
                && kept.at.protocols.has_quic() == has_quic
                && match kept.state {
                    RetainedState::InEffect => true,
                    RetainedState::Draining => has_quic,
                    RetainedState::Closing => false,
                }
        };
        let is_own = |kept: &RetainedAddress| fits(kept) && kept.name == listener.name;
        let own = self.kept.iter().position(is_own);
        let other = self.kept.iter().position(fits);
        let found = own.or(other.filter(|_| address.port() != 0))?;
        let mut kept = self.kept.remove(found);
        // A file may name the port that was free.
        kept.at.configured = address;
        Some(kept)
    }

    /// Takes the sockets of TCP of an address, for so many workers. Returns whether there are any.
    fn add_tcp(
        &mut self,
        listener: &Listener,
        id: ListenerId,
        sockets: Vec<TcpListener>,
        workers: usize,
    ) -> bool {
        let has_tcp = !sockets.is_empty();
        if has_tcp {
            let group = listener.group.clone();
            self.tcp.push(TcpSockets { group, listener: id, sockets, workers });
        }
        has_tcp
    }

    /// Returns the sockets of TCP of the next worker of a group, each with its listener.
    pub(super) fn take_tcp(&mut self, group: &str) -> Vec<(ListenerId, TcpListener)> {
        let of_group = self.tcp.iter_mut().filter(|tcp| tcp.group == group);
        let taken = of_group.flat_map(|tcp| {
            let count = tcp.sockets.len().div_ceil(tcp.workers.max(1));
            tcp.workers = tcp.workers.saturating_sub(1);
            let taken = tcp.sockets.split_off(tcp.sockets.len() - count);
            taken.into_iter().map(|socket| (tcp.listener, socket))
        });
        taken.collect()
    }

    /// Returns whether workers close the sockets of QUIC that an address had.
    fn is_closing(&self, address: SocketAddr) -> bool {
        let mut kept = self.kept.iter();
        kept.any(|kept| kept.state == RetainedState::Closing && kept.at.local == address)
    }

    /// Returns the sockets of TCP of an address: those that a service manager passed, or else new ones.
    fn open_tcp(
        &self,
        listener: &Listener,
        address: SocketAddr,
        workers: usize,
        bind: impl FnOnce(SocketAddr, usize) -> Result<Vec<TcpListener>, TcpBindError>,
    ) -> Result<Vec<TcpListener>, ListenerError> {
        let passed = self.passed.tcp(&listener.name, address, workers)?;
        Ok(if passed.is_empty() { bind(address, workers)? } else { passed })
    }

    /// Returns whether sockets of TCP were bound for a listener.
    pub(super) fn has_new_tcp(&self, id: ListenerId) -> bool {
        self.tcp.iter().any(|tcp| tcp.listener == id)
    }

    /// Logs what a reload has bound for QUIC.
    pub(super) fn announce(&self) {
        for line in &self.lines {
            tracing::info!(
                listener = %line.listener, address = %line.address,
                algorithm = %line.algorithm, rules = line.rules, "listening"
            );
            line.log_sockets();
        }
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

/// Opens a group on sockets of QUIC. Without sockets, its workers get seeds by which their drivers remove listeners.
///
/// # Errors
/// As with [`open_group`].
pub(super) fn open_on_sockets(
    group: &Group,
    sockets: Vec<Acquired>,
    workers: usize,
    steering: Steering,
) -> Result<OpenedGroup, BootError> {
    let options = &group.socket;
    let opened = open_group(group.backend, sockets, workers, steering, options, group.driver);
    opened.map_err(|source| BootError::Group { group: group.name.clone(), source })
}

/// Binds the addresses of a listener that are not bound yet for every worker of its group.
pub(super) fn open_listener(
    listener: &Listener,
    settings: &ListenerSettings,
    plan: &mut ListenerPlan,
    bound_listeners: &mut BoundListeners,
) -> Result<(), BootError> {
    let quic = listener.addresses.iter().map(|address| (address, true));
    let http = listener.http_addresses.iter();
    for (address, has_quic) in quic.chain(http.map(|address| (address, false))) {
        let kept = plan.keep(listener, *address, has_quic);
        let is_new = kept.as_ref().is_none_or(|kept| kept.state != RetainedState::InEffect);
        let opened = match kept {
            Some(kept) => go_on(listener, kept, plan, bound_listeners),
            None if has_quic => open_quic(listener, *address, plan, bound_listeners),
            None => open_http(listener, *address, plan, bound_listeners.workers),
        };
        let at = opened.map_err(|error| BootError::listener(&listener.name, &[*address], error))?;
        if has_quic && is_new {
            plan.lines.push(ListenerLogLine {
                id: at.id,
                facts: None,
                listener: listener.name.clone(),
                address: at.local,
                group: listener.group.clone(),
                algorithm: settings.selection.own(),
                rules: listener.congestion_rules.len(),
            });
        }
        plan.bound_listeners.push(BoundListener {
            name: listener.name.clone(),
            at,
            settings: settings.clone(),
        });
    }
    Ok(())
}

/// Keeps a bound address for a listener, which may have TCP there or not.
fn go_on(
    listener: &Listener,
    kept: RetainedAddress,
    plan: &mut ListenerPlan,
    bound_listeners: &BoundListeners,
) -> Result<BoundAddress, ListenerError> {
    let RetainedAddress { mut at, state, .. } = kept;
    if !at.protocols.has_quic() {
        return Ok(at);
    }
    let has_sockets = state == RetainedState::InEffect && at.protocols.has_tcp();
    let has_tcp = listener.tcp
        && (has_sockets || {
            let workers = bound_listeners.workers;
            let bind = match bound_listeners.bound {
                Bound::Sockets(_) => bind_tcp::bind_when_free,
                // The kernel may not have the address.
                Bound::Port(_) | Bound::OpenPort => bind_tcp::bind_beside_port,
            };
            let sockets = plan.open_tcp(listener, at.local, workers, bind)?;
            plan.add_tcp(listener, at.id, sockets, workers)
        });
    at.protocols = Protocols::quic(has_tcp);
    Ok(at)
}

/// Binds an address for QUIC, and for TCP if the listener has it.
fn open_quic(
    listener: &Listener,
    address: SocketAddr,
    plan: &mut ListenerPlan,
    bound_listeners: &mut BoundListeners,
) -> Result<BoundAddress, ListenerError> {
    let (id, workers) = (plan.take_id()?, bound_listeners.workers);
    let (local, tcp) = match &mut bound_listeners.bound {
        Bound::Sockets(sockets) => {
            let (bound, tcp) = open_address(listener, id, address, workers, plan)?;
            let local = bound.local_addr();
            sockets.push(bound);
            (local, tcp)
        }
        Bound::Port(addresses) => {
            addresses.push((id, address));
            let bind = bind_tcp::bind_beside_port;
            let beside = listener.tcp.then(|| plan.open_tcp(listener, address, workers, bind));
            (address, beside.transpose()?.unwrap_or_default())
        }
        Bound::OpenPort => return Err(ListenerError::OnPort),
    };
    let has_tcp = plan.add_tcp(listener, id, tcp, workers);
    Ok(BoundAddress {
        id,
        group: listener.group.clone(),
        configured: address,
        local,
        protocols: Protocols::quic(has_tcp),
        payloads: Payloads::default(),
        lease: Lease::default(),
    })
}

/// Binds an address for connections without TLS.
fn open_http(
    listener: &Listener,
    address: SocketAddr,
    plan: &mut ListenerPlan,
    workers: usize,
) -> Result<BoundAddress, ListenerError> {
    let id = plan.take_id()?;
    let bound = plan.open_tcp(listener, address, workers, bind_tcp::bind_http)?;
    let local = bound.first().and_then(|socket| socket.local_addr().ok());
    plan.add_tcp(listener, id, bound, workers);
    Ok(BoundAddress {
        id,
        group: listener.group.clone(),
        configured: address,
        local: local.unwrap_or(address),
        protocols: Protocols::Http,
        payloads: Payloads::default(),
        lease: Lease::default(),
    })
}

/// Binds an address for UDP, and for TCP if the listener has it, unless a service manager has. A free port is one that is free for both.
fn open_address(
    listener: &Listener,
    id: ListenerId,
    address: SocketAddr,
    workers: usize,
    plan: &mut ListenerPlan,
) -> Result<(Acquired, Vec<TcpListener>), ListenerError> {
    let mut attempts = if address.port() == 0 { FREE_PORTS } else { 1 };
    loop {
        attempts -= 1;
        let passed = plan.passed.udp(&listener.name, address)?;
        let bound = if passed.is_empty() {
            until_free(
                || Acquired::bind(id, address, workers),
                |error| matches!(error, BindError::InUse { .. }),
            )?
        } else if plan.is_closing(address) {
            // Sockets that leave a group of SO_REUSEPORT would change the order of those that come.
            return Err(ListenerError::Closing);
        } else if let Some(steering) = plan.steering {
            let (bound, taken) = Acquired::take_over(id, passed, workers, steering)?;
            plan.taken.retain(|other| other.listener() != id);
            plan.taken.push(taken);
            bound
        } else {
            Acquired::inherit(id, passed, workers)?
        };
        if !listener.tcp {
            return Ok((bound, Vec::new()));
        }
        let local = bound.local_addr();
        let bind = if address.port() == 0 { bind_tcp::bind } else { bind_tcp::bind_when_free };
        match plan.open_tcp(listener, local, workers, bind) {
            Ok(tcp) => return Ok((bound, tcp)),
            Err(ListenerError::BindTcp(error)) if error.is_in_use() && attempts > 0 => {}
            Err(error) => return Err(error),
        }
    }
}
