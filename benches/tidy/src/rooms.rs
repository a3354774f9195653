//! Rooms: parts of the server's crates, and the parts that each may use.

mod tables;

use std::collections::BTreeSet;
use std::path::Path;

use crate::resolve::{Edge, End};
use crate::tree::Tree;

pub use tables::LAYERS;

/// A part of a crate: a module, with all below it that has no row of its own.
#[derive(Debug)]
pub struct Room {
    /// The module's path from the crate's root.
    pub path: &'static str,
    /// The rooms that it may use besides itself.
    pub uses: &'static [&'static str],
}

/// The rooms of a crate.
#[derive(Debug)]
pub struct Layers {
    /// The crate's folder.
    pub folder: &'static str,
    /// From the highest to the lowest: none names one above itself.
    pub rooms: &'static [Room],
    /// Crates, and parts of crates such as `sluicegate_base::tls`, that only these rooms may name.
    pub crates: &'static [(&'static str, &'static [&'static str])],
}

impl Layers {
    /// Returns the table of the crate in `folder`, if it has one.
    #[must_use]
    pub fn of(folder: &Path) -> Option<&'static Layers> {
        LAYERS.iter().find(|layers| Path::new(layers.folder) == folder)
    }

    /// Returns what breaks the table, as `room FILE -> USED`, and the modules that no room holds.
    #[must_use]
    pub fn violations(&self, tree: &Tree, edges: &BTreeSet<Edge>) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for module in &tree.modules {
            if !module.path.is_empty() && self.room_of(&module.path).is_none() {
                found.insert(format!("room {} -> none", module.file.display()));
            }
        }
        for edge in edges {
            let module = &tree.modules[edge.from];
            let Some(from) = self.room_of(&module.path) else {
                continue;
            };
            let used = match &edge.to {
                End::Crate(path) => self.forbidden(&module.path, path),
                End::Module(to) => {
                    let to = self.room_of(&tree.modules[*to].path);
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
    fn room_of(&self, module: &[String]) -> Option<&'static Room> {
        let holds = |room: &&Room| is_in(module, room.path);
        self.rooms.iter().filter(holds).max_by_key(|room| room.path.len())
    }

    /// Returns the crate, or the part of one, that a module may not name.
    fn forbidden(&self, module: &[String], path: &str) -> Option<&'static str> {
        let is_of = |part: &str| {
            path.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let rows = self.crates.iter().filter(|(part, _)| is_of(part));
        let mut missing = rows.filter(|(_, rooms)| !rooms.iter().any(|room| is_in(module, room)));
        missing.next().map(|(part, _)| *part)
    }
}

fn is_in(module: &[String], room: &str) -> bool {
    let mut names = module.iter();
    room.split("::").all(|part| names.next().is_some_and(|name| name == part))
}

fn may_use(from: &Room, to: &str) -> bool {
    from.path == to || from.uses.contains(&to)
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
        LAYERS[0].violations(&tree, &tree.edges()).into_iter().collect()
    }

    #[test]
    fn rooms_name_none_above_them() {
        for Layers { rooms, .. } in LAYERS {
            let position = |path: &str| rooms.iter().position(|room| room.path == path);
            for (at, room) in rooms.iter().enumerate() {
                for used in room.uses {
                    assert!(at < position(used).expect(used), "{} -> {used}", room.path);
                }
            }
        }
    }

    #[test]
    fn a_use_upwards_is_a_violation() {
        let found = of(&[
            ("lib.rs", "mod acme; mod snapshot; mod tcp; mod h3;"),
            ("acme.rs", "use crate::h3::Session; use sluicegate_base::clock;"),
            (
                "snapshot.rs",
                "pub struct Snapshot(crate::h3::Session, sluicegate_base::tls::Identity);",
            ),
            ("h3.rs", "pub struct Session(quiche::Config); use sluicegate_base::tls::Identity;"),
            ("tcp.rs", "pub struct Front(sluicegate_quic::endpoint::Endpoint, quiche::Config);"),
        ]);
        let expected = [
            "room acme.rs -> h3",
            "room h3.rs -> sluicegate_base::tls",
            "room tcp.rs -> quiche",
            "room tcp.rs -> sluicegate_quic",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn every_module_has_a_room() {
        let found = of(&[("lib.rs", "mod attic;"), ("attic.rs", "")]);
        assert_eq!(found, ["room attic.rs -> none"]);
    }
}
