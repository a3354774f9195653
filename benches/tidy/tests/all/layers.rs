//! Checks which crates, rooms and files use which.
//!
//! **Files.** Within a crate, no two files use each other, directly or by way of others. A file uses another when its code names
//! an item that the other one defines: in a `use`, or by a path in place, in macros too. A re-export is followed to the
//! definition. A call of a method of the caller's own type is a use of the file that defines it. These are no uses: `mod`
//! declarations, a module that re-exports what is defined below it, naming a module without an item in it, other method calls, and
//! whatever exists only in tests. So a parent may declare and re-export its children while they use what it defines; it may not also
//! name their items in its own code.
//!
//! **Rooms.** `rooms/tables.rs` lists the parts of the server's crates, and the crates that only some of them may name.

use std::collections::BTreeMap;
use std::path::Path;

use sluicegate_tidy::crates::{libraries, members};
use sluicegate_tidy::layers::findings;
use sluicegate_tidy::repository::none;
use sluicegate_tidy::rooms::{LAYERS, Layers};

/// Each package and the packages of this workspace that it may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("http", &[]),
    // As published.
    ("sluicegate-http-source", &["http"]),
    ("sluicegate-options", &[]),
    ("sluicegate-cc", &["sluicegate-options"]),
    ("sluicegate-sim", &["sluicegate-cc"]),
    ("sluicegate-frames", &[]),
    ("sluicegate-dataplane", &["sluicegate-dpdk", "sluicegate-frames", "sluicegate-options"]),
    ("sluicegate-dpdk", &[]),
    ("sluicegate-quiche", &["sluicegate-cc"]),
    ("sluicegate-test-support", &["sluicegate-cc", "sluicegate-quiche"]),
    ("sluicegate-config", &["sluicegate-cc", "sluicegate-dataplane", "sluicegate-options"]),
    ("sluicegate-base", &["sluicegate-config"]),
    ("sluicegate-cid", &[]),
    ("sluicegate-balance", &["sluicegate-base", "sluicegate-cid", "sluicegate-config"]),
    (
        "sluicegate-http",
        &[
            "http",
            "sluicegate-base",
            "sluicegate-cc",
            "sluicegate-config",
            "sluicegate-dataplane",
            "sluicegate-quic-client",
        ],
    ),
    (
        "sluicegate-quic",
        &[
            "sluicegate-base",
            "sluicegate-cc",
            "sluicegate-cid",
            "sluicegate-config",
            "sluicegate-dataplane",
            "sluicegate-quiche",
        ],
    ),
    (
        "sluicegate",
        &[
            "http",
            "sluicegate-balance",
            "sluicegate-base",
            "sluicegate-cc",
            "sluicegate-config",
            "sluicegate-dataplane",
            "sluicegate-http",
            "sluicegate-load",
            "sluicegate-qlog",
            "sluicegate-quic",
            "sluicegate-quic-client",
            "sluicegate-quiche",
        ],
    ),
    ("sluicegate-load", &["http", "sluicegate-cc", "sluicegate-quic-client", "sluicegate-quiche"]),
    ("sluicegate-qlog", &[]),
    ("sluicegate-quic-client", &["http", "sluicegate-quiche"]),
    (
        "sluicegate-benches",
        &[
            "sluicegate",
            "sluicegate-base",
            "sluicegate-cc",
            "sluicegate-config",
            "sluicegate-dataplane",
            "sluicegate-http",
            "sluicegate-quic",
            "sluicegate-quic-client",
            "sluicegate-quiche",
            "sluicegate-sim",
        ],
    ),
    ("sluicegate-compare", &["sluicegate-dataplane"]),
    ("own-controller", &["sluicegate", "sluicegate-cc"]),
    ("sluicegate-raw-client", &[]),
    ("sluicegate-tidy", &[]),
];

/// Packages that the tests of every package may use.
const TEST_TOOLS: &[&str] = &[
    // Its connection IDs.
    "sluicegate-cid",
    "sluicegate-qlog",
    "sluicegate-raw-client",
    "sluicegate-sim",
    "sluicegate-test-support",
];

#[test]
fn crates_depend_in_one_direction() {
    let allowed: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    let members = members();
    assert_eq!(members.len(), allowed.len(), "each member has its arrows");
    let mut defects = Vec::new();
    for member in members {
        let package = &member.package;
        let Some(arrows) = allowed.get(package.as_str()) else {
            defects.push(format!("{package} has no arrows in this test"));
            continue;
        };
        let in_tests =
            |name: &&str| arrows.contains(name) || TEST_TOOLS.contains(name) || name == package;
        let names = member.dependencies.iter().map(String::as_str);
        let forbidden = names.filter(|name| !arrows.contains(name));
        let names = member.test_dependencies.iter().map(String::as_str);
        let forbidden = forbidden.chain(names.filter(|name| !in_tests(name)));
        for name in forbidden.filter(|name| allowed.contains_key(name)) {
            defects.push(format!("{package} must not depend on {name}"));
        }
    }
    none(&defects);
}

#[test]
fn files_and_rooms_use_others_in_one_direction() {
    let found = findings().into_iter();
    none(&found.map(|finding| format!("{}\n{}", finding.line, finding.places)).collect::<Vec<_>>());
}

#[test]
fn every_room_of_the_tables_exists() {
    let libraries = libraries();
    let mut missing = Vec::new();
    for Layers { folder, rooms, .. } in LAYERS {
        let library = libraries.iter().find(|library| library.folder == Path::new(folder));
        let modules = &library.expect("a library").tree.modules;
        let exists = |path: &str| modules.iter().any(|module| module.path.join("::") == path);
        let paths = rooms.iter().map(|room| room.path);
        missing.extend(paths.filter(|path| !exists(path)).map(|path| format!("{folder}: {path}")));
    }
    none(&missing);
}
