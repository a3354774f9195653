//! The sockets that an upgrade hands over.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use sluicegate_dataplane::ListenerId;

use super::super::lanes::group_index;
use super::super::reload::Reloader;
use super::super::worker_commands::{ask, ask_each};
use crate::handover::relay::AddressLabels;
use crate::handover::{Message, SocketKind};
use crate::tcp::FrontCommand;
use crate::worker::Command;

/// Listening sockets, each with the message that names it, and the numbers of the addresses of QUIC.
pub(super) struct ListeningSockets {
    pub(super) sockets: Vec<(Message, OwnedFd)>,
    pub(super) labels: AddressLabels,
}

/// Returns what this process listens on, and the numbers of the addresses of QUIC.
pub(super) fn gather(reloader: &Reloader<'_>) -> io::Result<ListeningSockets> {
    let of_quic = ask(&reloader.workers, Command::Sockets)?;
    let of_tcp = ask_each(&reloader.workers, |worker, reply| {
        worker.front.send(FrontCommand::Sockets(reply)).is_ok()
    })?;
    let mut labels = AddressLabels::new(reloader.steering);
    let mut all = Vec::new();
    for (label, bound) in (0u16..).zip(&reloader.snapshot.bound_listeners) {
        labels.add(label, bound.at.id, group_index(&reloader.config, &bound.at.group));
    }
    for (kind, workers) in [(SocketKind::Udp, of_quic), (SocketKind::Tcp, of_tcp)] {
        for (id, socket) in in_group_order(workers.into_iter().collect::<io::Result<_>>()?) {
            let bound = (0u16..).zip(&reloader.snapshot.bound_listeners);
            let Some((label, bound)) = bound.into_iter().find(|(_, bound)| bound.at.id == id)
            else {
                continue;
            };
            if kind == SocketKind::Udp {
                labels.add_sockets(id, 1);
            }
            let (listener, configured) = (bound.name.clone(), bound.at.configured);
            all.push((Message::Socket { kind, listener, configured, label }, socket));
        }
    }
    if let Some((configured, socket)) = reloader.admin.duplicate()? {
        let (kind, listener) = (SocketKind::Admin, String::new());
        all.push((Message::Socket { kind, listener, configured, label: 0 }, socket));
    }
    Ok(ListeningSockets { sockets: all, labels })
}

/// Returns the sockets of workers in the order in which they were bound, by which the kernel selects one. Where there are more than
/// workers, those of a listener went to the workers in turn.
fn in_group_order<T>(workers: Vec<Vec<(ListenerId, T)>>) -> Vec<(ListenerId, T)> {
    let mut all = Vec::new();
    for (worker, sockets) in workers.into_iter().enumerate() {
        let mut turns = HashMap::<ListenerId, usize>::new();
        for (id, socket) in sockets {
            let turn = turns.entry(id).or_default();
            all.push(((*turn, worker), (id, socket)));
            *turn += 1;
        }
    }
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, socket)| socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_handed_over_in_the_order_in_which_they_were_bound() {
        let [one, two] = [1, 2].map(ListenerId);
        // Five sockets of one listener and two of another, of two workers.
        let first = vec![(one, 0), (two, 10), (one, 2), (one, 4)];
        let second = vec![(two, 11), (one, 1), (one, 3)];
        let all = in_group_order(vec![first, second]);
        let of = |listener| {
            let own = all.iter().filter(|(id, _)| *id == listener);
            own.map(|(_, socket)| *socket).collect::<Vec<_>>()
        };
        assert_eq!((of(one), of(two)), (vec![0, 1, 2, 3, 4], vec![10, 11]));
    }
}
