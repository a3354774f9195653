//! Listeners of a reloaded configuration: those that are bound already are kept, and the others are bound before anything changes.

use std::collections::{BTreeMap, VecDeque};

use sluicegate_config::{Config, Group, Listener};
use sluicegate_dataplane::{Backend, Seed, open_group};

use super::error::{BootError, ListenerError};
use super::listen::{Announced, Bound, BoundListeners, Kept, open_listener};
use crate::quic::config_snapshot::ListenerSettings;
use crate::worker::WorkerHandle;

/// Listeners of a configuration, with the sockets of those that were not bound before.
pub(super) struct Rebound {
    /// All listeners, and the new sockets of TCP.
    pub(super) announced: Announced,
    /// New sockets of QUIC by group, a seed for each worker.
    pub(super) seeds: BTreeMap<String, VecDeque<Seed>>,
}

/// Binds the listeners of a configuration that `announced` does not keep.
///
/// # Errors
/// An address cannot be bound, or a group can have no further one. What was bound here is closed then.
pub(super) fn rebind(
    config: &Config,
    workers: &[WorkerHandle],
    mut announced: Announced,
    settings: impl Fn(&Listener) -> Result<ListenerSettings, BootError>,
) -> Result<Rebound, BootError> {
    let mut seeds = BTreeMap::new();
    for group in &config.groups {
        let all = config.listeners.iter();
        let mut listeners = all.filter(|l| l.group == group.name).peekable();
        let workers = workers.iter().filter(|w| w.group == group.name).count();
        if let Some(first) = listeners.peek()
            && workers == 0
        {
            let group = group.name.clone();
            return Err(BootError::listener(
                &first.name,
                ListenerError::NoWorkers { group },
            ));
        }
        let bound = match group.backend {
            Backend::Dpdk => Bound::OpenPort,
            Backend::Auto | Backend::Mio | Backend::IoUring => Bound::Sockets(Vec::new()),
        };
        let mut bound = BoundListeners { workers, bound };
        for listener in listeners {
            open_listener(listener, &settings(listener)?, &mut announced, &mut bound)?;
        }
        if let Bound::Sockets(sockets) = bound.bound
            && !sockets.is_empty()
        {
            let (options, buffers) = (&group.socket, group.driver);
            let opened = open_group(group.backend, sockets, workers, options, buffers);
            let opened = opened.map_err(|source| BootError::Group {
                group: group.name.clone(),
                source,
            })?;
            announced.add_facts(&opened.listeners);
            seeds.insert(group.name.clone(), opened.seeds.into());
        }
    }
    check_ports(config, &announced.kept)?;
    Ok(Rebound { announced, seeds })
}

/// Refuses to remove an address of a port that the server drives itself.
fn check_ports(config: &Config, removed: &[Kept]) -> Result<(), BootError> {
    for kept in removed {
        let group = config
            .groups
            .iter()
            .find(|group| group.name == kept.at.group);
        let on_port = group.is_some_and(|group| group.backend == Backend::Dpdk);
        if on_port && kept.at.protocols.has_quic() {
            return Err(BootError::listener(&kept.name, ListenerError::OnPort));
        }
    }
    Ok(())
}

/// Returns seeds without sockets for the workers of a group, by which drivers remove listeners.
///
/// # Errors
/// As with [`open_group`].
pub(super) fn without_sockets(group: &Group, workers: usize) -> Result<Vec<Seed>, BootError> {
    let (options, buffers) = (&group.socket, group.driver);
    let opened = open_group(group.backend, Vec::new(), workers, options, buffers);
    let opened = opened.map_err(|source| BootError::Group {
        group: group.name.clone(),
        source,
    })?;
    Ok(opened.seeds)
}
