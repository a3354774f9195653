//! Table of the server's parts and of the parts that each may use.

use std::collections::BTreeSet;

use crate::resolve::{Edge, End};
use crate::tree::Tree;

/// A part of the server: a module, with all below it that has no row of its own.
#[derive(Debug)]
pub struct Room {
    /// The module's path from the crate's root.
    pub path: &'static str,
    /// The rooms that it may use besides itself. `http*` stands for `http` and all below it.
    pub uses: &'static [&'static str],
}

const fn room(path: &'static str, uses: &'static [&'static str]) -> Room {
    Room { path, uses }
}

/// The rooms of `server/src`, from the highest to the lowest: none names one above itself.
pub const ROOMS: &[Room] = &[
    room("cli", &["boot", "http*", "observe", "clock"]),
    room(
        "boot",
        &[
            "admin",
            "worker",
            "snapshot",
            "quic",
            "h3",
            "tcp",
            "acme",
            "congestion",
            "tls",
            "http*",
            "clients",
            "secrets",
            "observe",
            "affinity",
            "clock",
            "networks",
        ],
    ),
    room("admin", &["worker", "quic", "h3", "tcp", "http*", "observe", "affinity", "clock"]),
    room("worker", &["snapshot", "quic", "h3", "tcp", "http*", "observe", "affinity", "clock"]),
    room("snapshot", &["h3", "quic", "congestion", "tls", "http*", "secrets", "observe", "clock"]),
    room("h3", &["quic", "http*", "clients", "keys", "observe", "address", "clock"]),
    room(
        "quic",
        &[
            "congestion",
            "tls",
            "clients",
            "keys",
            "overload",
            "secrets",
            "observe",
            "address",
            "clock",
            "entropy",
        ],
    ),
    room(
        "tcp",
        &["acme", "http*", "clients", "overload", "observe", "address", "clock", "networks"],
    ),
    room("congestion", &["clients", "observe", "address", "networks"]),
    room("tls", &["secrets", "observe", "clock", "entropy", "named_file", "self_signed"]),
    room("acme", &["observe", "clock", "named_file", "self_signed", "state_file"]),
    room(
        "http::gate",
        &[
            "http",
            "http::auth",
            "clients",
            "http::exchange",
            "http::files",
            "http::route",
            "keys",
            "observe",
            "address",
            "clock",
        ],
    ),
    room(
        "http::origin",
        &[
            "http",
            "http::auth",
            "http::exchange",
            "http::route",
            "http::fastcgi",
            "http::files",
            "http::proxy",
            "observe",
            "affinity",
            "clock",
        ],
    ),
    room(
        "http::route",
        &[
            "http",
            "http::auth",
            "http::exchange",
            "http::fastcgi",
            "http::files",
            "http::proxy",
            "observe",
            "address",
            "clock",
            "named_file",
            "networks",
        ],
    ),
    room(
        "http::fastcgi",
        &[
            "http",
            "clients",
            "http::exchange",
            "http::files",
            "http::proxy",
            "observe",
            "address",
            "clock",
        ],
    ),
    room(
        "http::proxy",
        &["http", "clients", "http::exchange", "observe", "address", "clock", "named_file"],
    ),
    room("http::files", &["http", "clients", "http::exchange", "observe", "address", "clock"]),
    room(
        "http::auth",
        &["http", "clients", "http::exchange", "observe", "address", "affinity", "clock"],
    ),
    room("http::exchange", &["http", "clients", "keys", "observe", "address", "clock"]),
    room("http", &["observe", "address", "clock", "entropy", "networks"]),
    room("clients", &["observe", "address"]),
    room("overload", &["clock"]),
    room("secrets", &["clock", "entropy", "named_file", "state_file"]),
    room("observe", &["address", "clock"]),
    room("affinity", &[]),
    room("clock", &[]),
    room("entropy", &[]),
    room("named_file", &[]),
    room("address", &[]),
    room("networks", &[]),
    room("self_signed", &[]),
    room("keys", &[]),
    room("state_file", &[]),
];

/// Crates that only some rooms may name: `http` knows no transport, and quiche stays where packets and frames are.
pub const CRATES: &[(&str, &[&str])] = &[
    ("quiche", &["snapshot", "quic", "h3", "congestion", "cli::get", "worker::turn"]),
    ("sluicegate_load", &["cli"]),
    (
        "sluicegate_dataplane",
        // Files are read by its `read_cached`: unsafe code is there.
        &["cli", "boot", "admin", "worker", "snapshot", "quic", "tcp", "http::files::disk"],
    ),
];

/// Returns what breaks the tables, as `room FILE -> USED`, and the modules that no room holds.
#[must_use]
pub fn violations(tree: &Tree, edges: &BTreeSet<Edge>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for module in &tree.modules {
        if !module.path.is_empty() && room_of(&module.path).is_none() {
            found.insert(format!("room {} -> none", module.file.display()));
        }
    }
    for edge in edges {
        let module = &tree.modules[edge.from];
        let Some(from) = room_of(&module.path) else {
            continue;
        };
        let used = match &edge.to {
            End::Crate(name) => (!may_name(&module.path, name)).then_some(name.as_str()),
            End::Module(to) => {
                let to = room_of(&tree.modules[*to].path);
                to.filter(|to| !may_use(from, to.path)).map(|to| to.path)
            }
        };
        if let Some(used) = used {
            found.insert(format!("room {} -> {used}", module.file.display()));
        }
    }
    found
}

/// Returns the room that holds a module: the one with the longest path.
fn room_of(module: &[String]) -> Option<&'static Room> {
    let holds = |room: &&Room| is_in(module, room.path);
    ROOMS.iter().filter(holds).max_by_key(|room| room.path.len())
}

fn is_in(module: &[String], room: &str) -> bool {
    let mut names = module.iter();
    room.split("::").all(|part| names.next().is_some_and(|name| name == part))
}

fn may_use(from: &Room, to: &str) -> bool {
    from.path == to
        || from.uses.iter().any(|row| match row.strip_suffix('*') {
            Some(prefix) => to == prefix || to.starts_with(&format!("{prefix}::")),
            None => to == *row,
        })
}

fn may_name(module: &[String], krate: &str) -> bool {
    let row = CRATES.iter().find(|(name, _)| *name == krate);
    row.is_none_or(|(_, rooms)| rooms.iter().any(|room| is_in(module, room)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn of(files: &[(&str, &str)]) -> Vec<String> {
        let source = |file: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == file);
            found.map(|(_, text)| (*text).to_owned())
        };
        let tree = Tree::read(&source, Path::new("lib.rs"));
        violations(&tree, &tree.edges()).into_iter().collect()
    }

    #[test]
    fn rooms_name_none_above_them() {
        let position = |path: &str| ROOMS.iter().position(|room| room.path == path);
        for (at, room) in ROOMS.iter().enumerate() {
            for used in room.uses {
                let first = position(used.trim_end_matches('*')).unwrap();
                assert!(at < first || used.ends_with('*'), "{} -> {used}", room.path);
            }
        }
    }

    #[test]
    fn a_use_upwards_is_a_violation() {
        let found = of(&[
            ("lib.rs", "mod observe; mod quic; mod clients; mod http;"),
            ("observe.rs", "use crate::quic::Endpoint;"),
            ("quic.rs", "pub struct Endpoint(quiche::Config, crate::clients::Clients);"),
            ("clients.rs", "pub struct Clients;"),
            ("http.rs", "pub mod exchange; pub mod route;"),
            ("http/exchange.rs", "use super::route::Route; pub struct Ring(quiche::Config);"),
            ("http/route.rs", "pub struct Route;"),
        ]);
        let expected = [
            "room http/exchange.rs -> http::route",
            "room http/exchange.rs -> quiche",
            "room observe.rs -> quic",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn every_module_has_a_room() {
        let found = of(&[("lib.rs", "mod attic;"), ("attic.rs", "")]);
        assert_eq!(found, ["room attic.rs -> none"]);
    }
}
