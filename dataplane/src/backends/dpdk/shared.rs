//! State of a port that its workers share.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use sluicegate_frames::PortConfig;

use super::kernel::KernelSockets;
use super::slow::SlowPath;
use crate::addr::covers;
use crate::meta::ListenerId;

/// Who responds to ARP, neighbor discovery and ICMP for a port, and resolves its next hops.
#[derive(Debug)]
pub(super) enum Control {
    /// The workers, by a stack of their own.
    Stack(Box<SlowPath>),
    /// The kernel, which has the port's addresses.
    Kernel(KernelSockets),
}

/// State of a port that its workers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: Arc<PortConfig>,
    /// Listeners in order of their ports.
    listeners: Vec<(ListenerId, SocketAddr)>,
    /// Interface of the kernel behind the port.
    pub(super) interface: Option<String>,
    /// Whether the port writes checksums.
    pub(super) tx_checksum: bool,
    pub(super) control: Control,
    /// Time of the port's opening, from which the slow path counts milliseconds.
    pub(super) epoch: Instant,
}

impl Shared {
    pub(super) fn new(
        config: PortConfig,
        interface: Option<&str>,
        mut listeners: Vec<(ListenerId, SocketAddr)>,
        tx_checksum: bool,
        kernel: Option<KernelSockets>,
        epoch: Instant,
    ) -> Self {
        listeners.sort_by_key(|(_, address)| address.port());
        let config = Arc::new(config);
        Self {
            control: kernel
                .map_or_else(|| Control::Stack(Box::new(SlowPath::new(&config))), Control::Kernel),
            config,
            listeners,
            interface: interface.map(str::to_owned),
            tx_checksum,
            epoch,
        }
    }

    /// Returns the listener that a datagram to `destination` is for: one of this very address before a wildcard.
    pub(super) fn listener_at(&self, destination: &SocketAddr) -> Option<ListenerId> {
        let first = self.listeners.partition_point(|(_, bound)| bound.port() < destination.port());
        let of_port = self.listeners[first..].iter();
        let of_port = of_port.take_while(|(_, bound)| bound.port() == destination.port());
        let covering = of_port.filter(|(_, bound)| covers(bound, destination));
        let found = covering.min_by_key(|(_, bound)| bound.ip().is_unspecified());
        found.map(|(id, _)| *id)
    }

    /// Returns the port's own stack; `None` where the kernel's is used.
    pub(super) fn stack(&self) -> Option<&SlowPath> {
        match &self.control {
            Control::Stack(slow) => Some(slow),
            Control::Kernel(_) => None,
        }
    }

    pub(super) fn listeners(&self) -> &[(ListenerId, SocketAddr)] {
        &self.listeners
    }

    /// Returns the address that a datagram to `peer` leaves from, where `local` was asked for; `None` where there is none of
    /// the family.
    pub(super) fn source(
        &self,
        bound: SocketAddr,
        peer: SocketAddr,
        local: Option<SocketAddr>,
    ) -> Option<SocketAddr> {
        if bound.is_ipv4() != peer.is_ipv4() {
            return None;
        }
        let asked = local.map(|local| local.ip()).filter(|ip| !ip.is_unspecified());
        let ip = match asked {
            Some(ip) => ip,
            None if !bound.ip().is_unspecified() => bound.ip(),
            None => self.nearest(peer.ip())?,
        };
        Some(SocketAddr::new(ip, bound.port()))
    }

    /// Returns the port's address that shares the longest start with `peer`.
    fn nearest(&self, peer: IpAddr) -> Option<IpAddr> {
        let common = |ip: IpAddr| match (ip, peer) {
            (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
            (IpAddr::V6(a), IpAddr::V6(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
            _ => None,
        };
        let own = self.config.addresses.iter().map(|(ip, _)| *ip);
        let ranked = own.filter_map(|ip| Some((common(ip)?, ip)));
        ranked.max_by_key(|(bits, _)| *bits).map(|(_, ip)| ip)
    }
}
