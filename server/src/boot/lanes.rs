//! Ways between the workers and the thread that carries datagrams to and from another process.

use std::sync::Arc;

use sluicegate_config::Config;
use tokio::sync::Notify;

use crate::handover::relay::Lane;
use crate::worker::{Command, Neighbour, Side, WorkerHandle};

/// Makes lanes between workers and the thread that carries their datagrams, and tells the workers of them.
pub(super) fn lanes(
    workers: &[WorkerHandle],
    config: &Config,
    side: Side,
    notify: &Arc<Notify>,
) -> Vec<Lane> {
    let lanes = workers.iter().map(|worker| {
        let (neighbour, ring) = Neighbour::new(Arc::clone(notify));
        worker.mailbox.send(Command::Neighbour(side, Some(Box::new(neighbour))));
        Lane {
            group: group_index(config, &worker.group),
            worker: u8::try_from(worker.index).unwrap_or(u8::MAX),
            ring,
            mailbox: worker.mailbox.clone(),
        }
    });
    lanes.collect()
}

/// Returns the index of a group in the configuration, by which lanes and addresses name it.
pub(super) fn group_index(config: &Config, name: &str) -> u8 {
    let index = config.groups.iter().position(|group| group.name == name);
    index.and_then(|index| u8::try_from(index).ok()).unwrap_or(u8::MAX)
}
