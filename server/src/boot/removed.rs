//! Listeners that a reload has removed, until their connections have ended.

use sluicegate_config::Config;
use sluicegate_dataplane::ListenerId;

use super::error::one_line;
use super::listen::Kept;
use super::rebind::without_sockets;
use crate::quic::config_snapshot::{BoundListener, ConfigSnapshot};
use crate::worker::{Command, WorkerHandle};

/// Removed listeners whose sockets of QUIC are open, because connections drain. Another configuration may have them again.
#[derive(Default)]
pub(super) struct RemovedListeners(Vec<BoundListener>);

impl RemovedListeners {
    /// Takes the listeners of `previous` that `current` does not have, and no longer those that it has again.
    pub(super) fn take(&mut self, previous: &ConfigSnapshot, current: &ConfigSnapshot) {
        let all = current.bound_listeners.iter();
        let is_current = |bound: &BoundListener| all.clone().any(|one| one.at.id == bound.at.id);
        self.0.retain(|bound| !is_current(bound));
        let before = previous.bound_listeners.iter();
        for bound in before.filter(|bound| !is_current(bound)) {
            let (listener, address) = (&bound.name, bound.at.local);
            tracing::info!(%listener, %address, "no longer listening; connections drain");
            if bound.at.protocols.has_quic() {
                self.0.push(bound.clone());
            }
        }
    }

    /// Returns the addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Kept> {
        self.0.iter().map(|bound| Kept {
            name: bound.name.clone(),
            at: bound.at.clone(),
            in_effect: false,
        })
    }

    /// Has the workers close the sockets of listeners without connections.
    pub(super) fn close_unused(&mut self, config: &Config, workers: &[WorkerHandle]) {
        let unused: Vec<_> = self
            .0
            .extract_if(.., |bound| bound.at.lease.is_last())
            .collect();
        for group in &config.groups {
            let of_group = unused.iter().filter(|bound| bound.at.group == group.name);
            let ids: Vec<ListenerId> = of_group.map(|bound| bound.at.id).collect();
            if ids.is_empty() {
                continue;
            }
            let workers = workers.iter().filter(|worker| worker.group == group.name);
            match without_sockets(group, workers.clone().count()) {
                Ok(seeds) => {
                    for (worker, seed) in workers.zip(seeds) {
                        worker
                            .mailbox
                            .send(Command::Rebind(Box::new(seed), ids.clone()));
                    }
                }
                Err(error) => {
                    let error = one_line(&error);
                    tracing::error!(%error, "sockets of removed listeners stay open");
                }
            }
        }
        for bound in unused {
            let (listener, address) = (&bound.name, bound.at.local);
            tracing::info!(%listener, %address, "sockets of a removed listener closed");
        }
    }
}
