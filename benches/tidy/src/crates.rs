//! The crates of the workspace and what they depend on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::repository::{read, root};
use crate::tree::Tree;

/// A member of the workspace.
#[derive(Debug)]
pub struct Member {
    /// Folder, relative to the repository's root.
    pub folder: PathBuf,
    /// Name of the package.
    pub package: String,
    /// Packages that the library and its build script need.
    pub dependencies: BTreeSet<String>,
    /// Packages that only tests, examples and benchmarks need.
    pub test_dependencies: BTreeSet<String>,
}

/// Returns the members of the workspace.
///
/// # Panics
///
/// When a manifest cannot be read.
#[must_use]
pub fn members() -> Vec<Member> {
    let workspace = manifest(Path::new("Cargo.toml"));
    let folders = workspace["workspace"]["members"].as_array();
    let folders = folders.expect("the workspace lists its members");
    let member = |folder: &toml::Value| {
        let folder = PathBuf::from(folder.as_str().expect("a folder"));
        let manifest = manifest(&folder.join("Cargo.toml"));
        let package = manifest["package"]["name"].as_str().expect("a name");
        Member {
            package: package.to_owned(),
            dependencies: dependencies(&manifest, &["dependencies", "build-dependencies"]),
            test_dependencies: dependencies(&manifest, &["dev-dependencies"]),
            folder,
        }
    };
    folders.iter().map(member).collect()
}

/// Returns the folders of `package` and of the members that it needs outside of tests.
///
/// # Panics
///
/// When no member has that name.
#[must_use]
pub fn closure(package: &str) -> BTreeSet<PathBuf> {
    let members = members();
    let mut folders = BTreeSet::new();
    let mut waiting = vec![package];
    while let Some(package) = waiting.pop() {
        let member = members.iter().find(|member| member.package == package);
        let member = member.expect("a member of the workspace");
        if folders.insert(member.folder.clone()) {
            let needed = member.dependencies.iter().map(String::as_str);
            waiting.extend(needed.filter(|name| members.iter().any(|m| m.package == *name)));
        }
    }
    folders
}

/// The library of a member.
#[derive(Debug)]
pub struct Library {
    /// Folder of the member, relative to the repository's root.
    pub folder: PathBuf,
    /// The library's modules.
    pub tree: Tree,
}

/// Returns the libraries of the members that have one.
#[must_use]
pub fn libraries() -> Vec<Library> {
    let source = |file: &Path| root().join(file).is_file().then(|| read(file));
    let folders = members().into_iter().map(|member| member.folder);
    let present = folders.filter(|folder| root().join(folder).join("src/lib.rs").is_file());
    let library =
        |folder: PathBuf| Library { tree: Tree::read(&source, &folder.join("src/lib.rs")), folder };
    present.map(library).collect()
}

fn manifest(name: &Path) -> toml::Table {
    let text = read(name);
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", name.display()))
}

/// Target whose dependencies only the fuzz targets need.
const FUZZING: &str = "cfg(fuzzing)";

/// Returns the packages in the manifest's tables of these names, those for one platform included. What the fuzz targets need
/// counts as a dependency of tests.
fn dependencies(manifest: &toml::Table, kinds: &[&str]) -> BTreeSet<String> {
    let mut tables = vec![(manifest, kinds)];
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    for (target, table) in targets.into_iter().flatten() {
        let Some(table) = table.as_table() else {
            continue;
        };
        if target != FUZZING {
            tables.push((table, kinds));
        } else if kinds.contains(&"dev-dependencies") {
            tables.push((table, &["dependencies"]));
        }
    }
    let mut packages = BTreeSet::new();
    for (table, kinds) in tables {
        for kind in kinds {
            let entries = table.get(*kind).and_then(toml::Value::as_table);
            for (key, value) in entries.into_iter().flatten() {
                let optional = value.get("optional").and_then(toml::Value::as_bool);
                if optional == Some(true) && is_for_tests(manifest, key) {
                    continue;
                }
                let renamed = value.get("package").and_then(toml::Value::as_str);
                packages.insert(renamed.unwrap_or(key).to_owned());
            }
        }
    }
    packages
}

/// Returns whether only features whose name begins with `test-` enable an optional dependency.
fn is_for_tests(manifest: &toml::Table, key: &str) -> bool {
    let enables = |list: &toml::Value| {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(toml::Value::as_str).any(|part| part == format!("dep:{key}"))
    };
    let features = manifest.get("features").and_then(toml::Value::as_table);
    let enabling = features.into_iter().flatten().filter(|(_, list)| enables(list));
    let mut names = enabling.map(|(name, _)| name).peekable();
    names.peek().is_some() && names.all(|name| name.starts_with("test-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_and_target_dependencies_are_seen() {
        let manifest: toml::Table = r#"
            [dependencies]
            quiche = { package = "sluicegate-quiche", path = "../cc/quiche" }
            sluicegate-raw-client = { workspace = true, optional = true }
            sluicegate-dpdk = { workspace = true, optional = true }
            sluicegate-cc = { workspace = true, optional = true }
            [features]
            dpdk = ["dep:sluicegate-dpdk"]
            test-fixtures = ["dep:sluicegate-raw-client"]
            [target.'cfg(unix)'.dev-dependencies]
            sluicegate-cc.workspace = true
            [target.'cfg(fuzzing)'.dependencies]
            sluicegate-sim.workspace = true
        "#
        .parse()
        .unwrap();
        let of = |kind| dependencies(&manifest, &[kind]).into_iter().collect::<Vec<_>>();
        assert_eq!(of("dependencies"), ["sluicegate-cc", "sluicegate-dpdk", "sluicegate-quiche"]);
        assert_eq!(of("dev-dependencies"), ["sluicegate-cc", "sluicegate-sim"]);
    }
}
