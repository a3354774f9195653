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
    generation: u8,
    notify: &Arc<Notify>,
) -> Vec<Lane> {
    let lanes = workers.iter().map(|worker| {
        let (neighbour, ring) = Neighbour::new(generation, Arc::clone(notify));
        worker.mailbox.send(Command::Neighbour(side, Some(Box::new(neighbour))));
        let group = config.groups.iter().position(|group| group.name == worker.group);
        Lane {
            group: group.and_then(|group| u8::try_from(group).ok()).unwrap_or(u8::MAX),
            worker: u8::try_from(worker.index).unwrap_or(u8::MAX),
            ring,
            mailbox: worker.mailbox.clone(),
        }
    });
    lanes.collect()
}
