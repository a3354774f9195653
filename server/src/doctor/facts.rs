//! What the checks read: the host's files, the configuration, and the results of probes.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::files::HostFiles;
use super::needs::{HostNeeds, ServedGroup};
use super::probe::HostProbe;
use super::sample::HostSample;

/// Everything that the checks read.
pub(crate) struct HostFacts<'a> {
    /// Files of the kernel.
    pub(crate) files: HostFiles,
    /// Questions that take system calls.
    pub(crate) probe: &'a dyn HostProbe,
    /// What the configuration needs.
    pub(crate) needs: HostNeeds<'a>,
    /// Counters of the kernel, as they were some time ago.
    pub(crate) before: HostSample,
    /// Time since then.
    pub(crate) elapsed: Duration,
    /// Round-trip times that the running server measures.
    pub(crate) paths: Result<Vec<MeasuredPath>, String>,
}

/// A connection of the running server.
#[derive(Clone, Debug)]
pub(crate) struct MeasuredPath {
    /// Name of its listener.
    pub(crate) listener: String,
    /// Its congestion control algorithm.
    pub(crate) algorithm: String,
    /// Smallest round-trip time, ms.
    pub(crate) min_rtt_ms: f64,
}

/// A network interface by which a listener is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListenerInterface {
    pub(super) name: String,
    pub(super) address: IpAddr,
}

impl HostFacts<'_> {
    /// Returns the groups whose workers use sockets of the kernel.
    pub(super) fn socket_groups(&self) -> impl Iterator<Item = &ServedGroup<'_>> {
        self.needs.groups.iter().filter(|group| group.has_sockets())
    }

    /// Returns the interfaces of a group's listeners, each with one address, except loopback.
    pub(super) fn interfaces(&self, group: &ServedGroup<'_>) -> Vec<ListenerInterface> {
        let is_local = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        let mut found: Vec<ListenerInterface> = Vec::new();
        for (name, address) in self.probe.addresses() {
            let listens = group.addresses.iter().map(SocketAddr::ip).any(|bound| {
                let all = bound.is_unspecified() && bound.is_ipv4() == address.is_ipv4();
                bound == address || (all && !is_local(address))
            });
            let is_new = found.iter().all(|known| known.name != name);
            if listens && is_new && !address.is_loopback() {
                found.push(ListenerInterface { name, address });
            }
        }
        found
    }

    /// Returns the interfaces of all groups with cards behind them: hardware, or what a virtual machine sees as such.
    pub(super) fn cards(&self) -> Vec<(&ServedGroup<'_>, ListenerInterface)> {
        let mut found: Vec<(&ServedGroup<'_>, ListenerInterface)> = Vec::new();
        for group in &self.needs.groups {
            for interface in self.interfaces(group) {
                let is_card =
                    self.files.exists(&format!("sys/class/net/{}/device", interface.name));
                if is_card && found.iter().all(|(_, known)| known.name != interface.name) {
                    found.push((group, interface));
                }
            }
        }
        found
    }
}
