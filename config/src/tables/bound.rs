//! Addresses that the server binds, and those that the system does not bind beside each other.

use std::net::SocketAddr;

use sluicegate_dataplane::Backend;

use super::{Group, Listener};
use crate::error::{Error, Position};
use crate::section::Section;
use crate::value::entries;

/// An address that the server binds.
pub(super) struct Bound {
    /// Byte where it stands in the file.
    pub(super) at: usize,
    key: &'static str,
    pub(super) address: SocketAddr,
    over_tcp: bool,
}

/// Returns the addresses of all listeners.
pub(super) fn of_listeners(
    listeners: &[Listener],
    groups: &[Group],
    top: &Section<'_>,
) -> Vec<Bound> {
    let mut bound = Vec::new();
    for (index, listener) in listeners.iter().enumerate() {
        // The kernel may not have the addresses of a port that the server drives itself, and binds none of them then.
        let on_port =
            |group: &Group| group.name == listener.group && group.backend == Backend::Dpdk;
        let in_kernel = !groups.iter().any(on_port);
        for (key, addresses, has_tcp) in [
            ("address", &listener.addresses, listener.tcp),
            ("http_address", &listener.http_addresses, true),
        ] {
            let value = top.value_in("listener", index, key);
            let places = value.map(|value| {
                let list = entries(value.get_ref(), value.span().start, 0..=usize::MAX);
                list.into_iter().map(|(at, _)| at)
            });
            let places = places.into_iter().flatten();
            bound.extend(places.zip(addresses).map(|(at, address)| Bound {
                at,
                key,
                address: *address,
                over_tcp: in_kernel && has_tcp,
            }));
        }
    }
    bound
}

/// Refuses two addresses of one port that the system does not bind beside each other over TCP: the same, or one that takes all of its
/// family and one of these. Over UDP it does.
pub(super) fn check_tcp(
    mut bound: Vec<Bound>,
    admin: Option<SocketAddr>,
    top: &Section<'_>,
) -> Result<(), Error> {
    bound.extend(admin.map(|address| {
        let table = top.raw("admin").and_then(|admin| admin.get_ref().as_table());
        let value = table.and_then(|table| table.get("address"));
        Bound {
            at: value.map_or(top.at, |value| value.span().start),
            key: "admin.address",
            address,
            over_tcp: true,
        }
    }));
    bound.retain(|one| one.over_tcp && one.address.port() != 0);
    // The address for all of a family comes first among those of its port.
    bound.sort_by_key(|one| (one.address.port(), one.address, one.at));
    let meet = |one: SocketAddr, next: SocketAddr| {
        let takes_all = one.ip().is_unspecified() && one.is_ipv4() == next.is_ipv4();
        one.port() == next.port() && (one == next || takes_all)
    };
    for pair in bound.windows(2) {
        let [one, next] = pair else { continue };
        if meet(one.address, next.address) {
            let (first, second) = if one.at < next.at { (one, next) } else { (next, one) };
            let line = Position::of(top.source.text, first.at).line;
            let found = format!(
                "`{}` {} over TCP beside `{}` {} on line {line}, which has the port there already",
                second.key, second.address, first.key, first.address
            );
            let expected = "another port, or one of the two addresses alone";
            return Err(top.source.error(second.at, found, expected));
        }
    }
    Ok(())
}
