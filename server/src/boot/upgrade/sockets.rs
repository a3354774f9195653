//! The sockets that an upgrade hands over.

use std::io;
use std::os::fd::OwnedFd;

use super::super::lanes::group_index;
use super::super::reload::Reloader;
use super::super::worker_replies::{ask, ask_each};
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
    let mut labels = AddressLabels::default();
    let mut all = Vec::new();
    for (label, bound) in (0u16..).zip(&reloader.snapshot.bound_listeners) {
        labels.add(label, bound.at.id, group_index(&reloader.config, &bound.at.group));
    }
    for (kind, workers) in [(SocketKind::Udp, of_quic), (SocketKind::Tcp, of_tcp)] {
        for sockets in workers {
            for (id, socket) in sockets? {
                let bound = (0u16..).zip(&reloader.snapshot.bound_listeners);
                let Some((label, bound)) = bound.into_iter().find(|(_, bound)| bound.at.id == id)
                else {
                    continue;
                };
                let (listener, configured) = (bound.name.clone(), bound.at.configured);
                all.push((Message::Socket { kind, listener, configured, label }, socket));
            }
        }
    }
    if let Some((configured, socket)) = reloader.admin.duplicate()? {
        let (kind, listener) = (SocketKind::Admin, String::new());
        all.push((Message::Socket { kind, listener, configured, label: 0 }, socket));
    }
    Ok(ListeningSockets { sockets: all, labels })
}
