//! Listeners that a reload has removed, until their connections have ended.

use std::time::Instant;

use sluicegate_config::{Config, Group};
use sluicegate_dataplane::{ListenerId, Steering};

use super::error::{BootError, one_line};
use super::limits::REMOVAL_PAUSE;
use super::listen::open_on_sockets;
use super::listen::{RetainedAddress, RetainedState};
use super::replies::Replies;
use crate::snapshot::{BoundListener, ConfigSnapshot};
use crate::worker::WorkerHandle;

/// Removed listeners whose sockets of QUIC are open. Another configuration may have them again as long as connections drain.
#[derive(Default)]
pub(super) struct RemovedListeners {
    all: Vec<Removed>,
    /// Groups whose workers close sockets.
    attempts: Vec<Attempt>,
    /// Time at which sockets that could not be closed are tried again.
    retry: Option<Instant>,
}

struct Removed {
    bound: BoundListener,
    /// Whether its sockets are to be closed, or some workers have closed theirs.
    is_closing: bool,
}

/// Sockets that the workers of a group close.
struct Attempt {
    group: String,
    ids: Vec<ListenerId>,
    replies: Replies,
}

impl RemovedListeners {
    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Takes the listeners of `previous` that `current` does not have, and no longer those that it has again.
    pub(super) fn take(&mut self, previous: &ConfigSnapshot, current: &ConfigSnapshot) {
        self.all.retain(|removed| !has(current, &removed.bound));
        let before = previous.bound_listeners.iter();
        for bound in before.filter(|bound| !has(current, bound)) {
            let (listener, address) = (&bound.name, bound.at.local);
            tracing::info!(%listener, %address, "no longer listening; connections drain");
            self.add(bound, false);
        }
    }

    /// Takes the listeners that `refused` has added to `current`: some workers may have opened their sockets.
    pub(super) fn take_refused(&mut self, current: &ConfigSnapshot, refused: &ConfigSnapshot) {
        for bound in &refused.bound_listeners {
            let id = bound.at.id;
            let is_known = self.all.iter().any(|removed| removed.bound.at.id == id);
            if !is_known && !has(current, bound) {
                self.add(bound, true);
            }
        }
    }

    fn add(&mut self, bound: &BoundListener, is_closing: bool) {
        if bound.at.protocols.has_quic() {
            self.all.push(Removed { bound: bound.clone(), is_closing });
        }
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = RetainedAddress> {
        self.all.iter().map(|removed| RetainedAddress {
            name: removed.bound.name.clone(),
            at: removed.bound.at.clone(),
            state: if removed.is_closing {
                RetainedState::Closing
            } else {
                RetainedState::Draining
            },
        })
    }

    /// Returns those that have connections.
    pub(super) fn in_use(&self) -> impl Iterator<Item = &BoundListener> {
        let all = self.all.iter().map(|removed| &removed.bound);
        all.filter(|bound| !bound.at.lease.is_last())
    }

    /// Ends the pause after a failure: the next configuration may have an address again.
    pub(super) fn retry_now(&mut self) {
        self.retry = None;
    }

    /// Has the workers close the sockets of listeners without connections, until they have. What fails is tried again after a pause.
    ///
    /// While another process drains (`others_drain`), none is closed.
    pub(super) fn close_unused(
        &mut self,
        config: &Config,
        workers: &[WorkerHandle],
        others_drain: bool,
        now: Instant,
    ) {
        for mut attempt in std::mem::take(&mut self.attempts) {
            match attempt.replies.take() {
                None => self.attempts.push(attempt),
                Some(Ok(())) => self.forget(&attempt.ids),
                Some(Err(cause)) => {
                    let group = attempt.group;
                    self.put_off(&BootError::Rebind { group, cause }, now);
                }
            }
        }
        for removed in &mut self.all {
            // Its connections may come in by them, too.
            removed.is_closing |= removed.bound.at.lease.is_last() && !others_drain;
        }
        if self.retry.is_some_and(|retry| now < retry) {
            return;
        }
        self.retry = None;
        for group in &config.groups {
            self.close(group, workers, now);
        }
    }

    /// Has the workers of a group close sockets, unless they do so already.
    fn close(&mut self, group: &Group, workers: &[WorkerHandle], now: Instant) {
        if self.attempts.iter().any(|attempt| attempt.group == group.name) {
            return;
        }
        let closing = self.all.iter().filter(|removed| removed.is_closing);
        let ids = closing.map(|removed| &removed.bound.at);
        let ids = ids.filter(|at| at.group == group.name).map(|at| at.id);
        let ids: Vec<ListenerId> = ids.collect();
        if ids.is_empty() {
            return;
        }
        let workers = workers.iter().filter(|worker| worker.group == group.name);
        match open_on_sockets(group, Vec::new(), workers.clone().count(), Steering::Hash) {
            Ok(opened) => self.attempts.push(Attempt {
                group: group.name.clone(),
                replies: Replies::rebind(workers.zip(opened.seeds), &ids),
                ids,
            }),
            Err(error) => self.put_off(&error, now),
        }
    }

    /// Drops listeners whose sockets are closed.
    fn forget(&mut self, ids: &[ListenerId]) {
        let closed = |removed: &mut Removed| ids.contains(&removed.bound.at.id);
        for Removed { bound, .. } in self.all.extract_if(.., closed) {
            let (listener, address) = (&bound.name, bound.at.local);
            tracing::info!(%listener, %address, "sockets of a removed listener closed");
        }
    }

    fn put_off(&mut self, error: &BootError, now: Instant) {
        let (error, pause) = (one_line(error), REMOVAL_PAUSE);
        tracing::error!(%error, next_attempt = ?pause, "sockets of removed listeners stay open");
        self.retry = Some(now + pause);
    }
}

/// Returns whether a configuration has a listener.
fn has(snapshot: &ConfigSnapshot, bound: &BoundListener) -> bool {
    let mut all = snapshot.bound_listeners.iter();
    all.any(|one| one.at.id == bound.at.id)
}
