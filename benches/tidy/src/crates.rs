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
    /// Packages that the manifest names, for tests and build scripts too.
    pub dependencies: BTreeSet<String>,
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
            dependencies: dependencies(&manifest),
            folder,
        }
    };
    folders.iter().map(member).collect()
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
    let library = |folder: PathBuf| Library {
        tree: Tree::read(&source, &folder.join("src/lib.rs")),
        folder,
    };
    present.map(library).collect()
}

fn manifest(name: &Path) -> toml::Table {
    let text = read(name);
    text.parse()
        .unwrap_or_else(|error| panic!("{}: {error}", name.display()))
}

/// Returns the packages that a manifest depends on in any way.
#[must_use]
pub fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    let mut tables = vec![manifest];
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(targets.values().filter_map(toml::Value::as_table));
    }
    let mut packages = BTreeSet::new();
    for table in tables {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let entries = table.get(kind).and_then(toml::Value::as_table);
            for (key, value) in entries.into_iter().flatten() {
                let renamed = value.get("package").and_then(toml::Value::as_str);
                packages.insert(renamed.unwrap_or(key).to_owned());
            }
        }
    }
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_and_target_dependencies_are_seen() {
        let manifest: toml::Table = r#"
            [dependencies]
            quiche = { package = "sluicegate-quiche", path = "../cc/quiche" }
            [target.'cfg(unix)'.dev-dependencies]
            sluicegate-cc.workspace = true
        "#
        .parse()
        .unwrap();
        let expected = ["sluicegate-cc", "sluicegate-quiche"].map(str::to_owned);
        assert_eq!(dependencies(&manifest), BTreeSet::from(expected));
    }
}
