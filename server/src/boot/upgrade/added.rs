//! Sockets that a newer process has bound behind those of this one, because it has more workers. This process holds them, so that none
//! closes before the last process has ended: the order of the group of SO_REUSEPORT stays, and what waits in them is not lost. Its workers
//! read them, too, once the service comes back.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;

use sluicegate_dataplane::{Acquired, ListenerId};

use super::super::error::{BootError, one_line};
use super::super::listen::open_on_sockets;
use super::super::reload::{Reloader, open_sockets};
use super::Upgrades;
use super::other::{Kind, OtherProcess};

/// Sockets of a listener at most, as many as a byte of a connection ID counts.
const MOST: u32 = 256;

impl Upgrades {
    /// Takes a socket that the process of this number has bound behind those of an address of this one.
    pub(in crate::boot) fn add_socket(&mut self, number: u64, label: u16, socket: OwnedFd) {
        let current = self.current.as_mut().filter(|other| other.number == number);
        let Some(Kind::Newer { labels, added, .. }) = current.map(|other| &mut other.kind) else {
            return;
        };
        if let Some(listener) = labels.listener(label).filter(|id| labels.sockets(*id) < MOST) {
            labels.add_sockets(listener, 1);
            added.push((listener, socket));
        }
    }
}

impl OtherProcess {
    /// Has the workers read, once they read at all, the sockets that this process has bound behind those of the own one, and passes them
    /// on to the process before.
    ///
    /// # Errors
    /// A worker cannot open them.
    pub(super) fn read_added(&mut self, reloader: &mut Reloader<'_>) -> Result<(), BootError> {
        let Kind::Newer { labels, added, .. } = &mut self.kind else {
            return Ok(());
        };
        let mut by_listener = HashMap::<ListenerId, Vec<OwnedFd>>::new();
        for (listener, socket) in std::mem::take(added) {
            by_listener.entry(listener).or_default().push(socket);
        }
        let mut by_group = BTreeMap::<String, Vec<Acquired>>::new();
        for bound in &reloader.snapshot.bound_listeners {
            let Some(sockets) = by_listener.remove(&bound.at.id) else {
                continue;
            };
            let count = u32::try_from(sockets.len()).unwrap_or(MOST);
            let first = labels.sockets(bound.at.id).saturating_sub(count);
            if let Some(before) = &mut reloader.takeover {
                for socket in sockets.iter().filter_map(|socket| socket.try_clone().ok()) {
                    before.add_socket(bound, socket);
                }
            }
            let first = usize::try_from(first).unwrap_or_default();
            let acquired = Acquired::behind(first, bound.at.id, sockets);
            let acquired = acquired
                .map_err(|error| BootError::listener(&bound.name, &[bound.at.local], error))?;
            by_group.entry(bound.at.group.clone()).or_default().push(acquired);
        }
        let mut seeds = BTreeMap::new();
        for group in &reloader.config.groups {
            let Some(acquired) = by_group.remove(&group.name) else {
                continue;
            };
            let workers = reloader.workers.iter().filter(|worker| worker.group == group.name);
            let opened = open_on_sockets(group, acquired, workers.count(), reloader.steering)?;
            seeds.insert(group.name.clone(), opened.seeds.into());
        }
        open_sockets(&reloader.workers, seeds)
    }

    /// Does so as far as it can, because the other process is gone: what no worker reads closes, and the kernel leads its datagrams to
    /// the others.
    pub(super) fn read_all_it_can(&mut self, reloader: &mut Reloader<'_>) {
        if let Err(error) = self.read_added(reloader) {
            let error = one_line(&error);
            tracing::error!(error, "upgrade: sockets of the newer process are not read");
        }
    }
}
