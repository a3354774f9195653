//! Ways between the workers and the thread that carries datagrams to and from another process.

use std::sync::Arc;

use sluicegate_config::Config;
use tokio::sync::Notify;

use super::worker_commands::send_all;
use crate::handover::Losses;
use crate::handover::relay::{AddressLabels, Lane, Relay};
use crate::worker::{Command, Neighbour, Side, WorkerHandle};

/// Connects the workers with a thread that is to carry datagrams to and from the process on this side, and returns the thread's part.
pub(super) fn connect(
    workers: &[WorkerHandle],
    config: &Config,
    side: Side,
    labels: AddressLabels,
    losses: &Arc<Losses>,
) -> Relay {
    let notify = Arc::<Notify>::default();
    let lanes = workers.iter().map(|worker| {
        let (neighbour, ring) = Neighbour::new(Arc::clone(&notify));
        worker.mailbox.send(Command::Neighbour(side, Some(Box::new(neighbour))));
        Lane {
            group: group_index(config, &worker.group),
            worker: u8::try_from(worker.index).unwrap_or(u8::MAX),
            ring,
            mailbox: worker.mailbox.clone(),
        }
    });
    Relay::new(lanes.collect(), labels, Arc::clone(&notify), Arc::clone(losses))
}

/// Has the workers pass nothing more to the process on this side.
pub(super) fn forget(workers: &[WorkerHandle], side: Side) {
    send_all(workers, || Command::Neighbour(side, None));
}

/// Returns the index of a group in the configuration, by which lanes and addresses name it.
pub(super) fn group_index(config: &Config, name: &str) -> u8 {
    let index = config.groups.iter().position(|group| group.name == name);
    index.and_then(|index| u8::try_from(index).ok()).unwrap_or(u8::MAX)
}
