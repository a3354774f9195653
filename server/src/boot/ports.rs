//! Ports that the server drives itself: their library is started before the groups, and they are closed after the workers.

use std::net::SocketAddr;

use sluicegate_config::{Config, Group};
use sluicegate_dataplane::{Backend, DevicePortOptions, ListenerId, PortError, PortHandle, Ports};

use super::cores::cores;
use super::error::BootError;

/// The ports of all groups.
pub(super) struct OpenPorts {
    /// Open ports with the names of their groups. They are closed before the library ends.
    open: Vec<(String, PortHandle)>,
    library: Option<Ports>,
}

/// A group on a port, with its number of workers.
pub(super) struct OnPort<'a> {
    group: &'a Group,
    options: DevicePortOptions,
    workers: usize,
}

impl<'a> OnPort<'a> {
    /// Returns the group if its backend drives a port.
    fn of(group: &'a Group, workers: usize) -> Option<Self> {
        let options = group.dpdk.options();
        let options = options.filter(|_| group.backend == Backend::Dpdk)?;
        Some(Self { group, options, workers })
    }
}

/// Returns the groups with listeners whose workers drive a port.
pub(super) fn on_ports(config: &Config) -> Result<Vec<OnPort<'_>>, BootError> {
    let mut found = Vec::new();
    for group in &config.groups {
        if config.listeners.iter().any(|l| l.group == group.name) {
            found.extend(OnPort::of(group, cores(group)?.len()));
        }
    }
    Ok(found)
}

/// Returns the options of the groups, and an error that names them.
fn parts<'a>(
    groups: &'a [OnPort<'_>],
) -> (Vec<(&'a DevicePortOptions, usize)>, impl Fn(PortError) -> BootError) {
    let all = groups.iter().map(|on| (&on.options, on.workers)).collect();
    let names: Vec<&str> = groups.iter().map(|on| on.group.name.as_str()).collect();
    let group = names.join("`, `");
    let refused = move |source| BootError::Port { group: group.clone(), source };
    (all, refused)
}

/// Checks what the host lacks for the ports of these groups.
pub(super) fn examine(groups: &[OnPort<'_>]) -> Result<(), BootError> {
    let (all, refused) = parts(groups);
    Ports::examine(&all).map_err(refused)
}

impl OpenPorts {
    /// Starts the library, if there is a group that needs it.
    pub(super) fn start(groups: &[OnPort<'_>]) -> Result<Self, BootError> {
        let (all, refused) = parts(groups);
        let library = match all.as_slice() {
            [] => None,
            all => Some(Ports::start(all).map_err(refused)?),
        };
        Ok(Self { open: Vec::new(), library })
    }

    /// Opens the port of a group with these listeners.
    pub(super) fn open(
        &mut self,
        group: &Group,
        listeners: &[(ListenerId, SocketAddr)],
        workers: usize,
    ) -> Result<sluicegate_dataplane::Group, BootError> {
        let refused = |source| BootError::Port { group: group.name.clone(), source };
        let (Some(library), Some(options)) = (&self.library, group.dpdk.options()) else {
            return Err(refused(PortError::LeftOut));
        };
        let opened = library.open(listeners, workers, &options).map_err(refused)?;
        self.open.push((group.name.clone(), opened.port));
        Ok(opened.group)
    }

    /// Logs what is in use.
    pub(super) fn announce(&self) {
        for (group, port) in &self.open {
            let facts = &port.facts;
            tracing::info!(
                %group, device = %facts.device, driver = %facts.driver, mac = %facts.mac, queues = facts.queues,
                beside_kernel = facts.beside_kernel, mtu = facts.mtu, rx_checksum = facts.rx_checksum, tx_checksum = facts.tx_checksum, rss = facts.rss,
                hugepages = facts.hugepages, "port opened"
            );
        }
        log_messages();
    }

    /// Closes the ports, whose workers have stopped.
    pub(super) fn close(self) {
        for (group, port) in self.open {
            match port.close() {
                Some(0) => tracing::info!(%group, "port closed; all buffers are back"),
                Some(missing) => {
                    tracing::warn!(%group, missing, "port closed; buffers are missing")
                }
                None => tracing::warn!(%group, "a worker still uses the port"),
            }
        }
        log_messages();
    }
}

/// Logs what the library has to say.
fn log_messages() {
    for line in Ports::take_messages() {
        tracing::warn!(%line, "DPDK");
    }
}
