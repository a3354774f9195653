//! What reviewers should not have to look for: sizes of files, dependencies between crates, names of files in prose,
//! paths of somebody's machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most lines of a Rust file.
const MAX_LINES: usize = 400;

/// Each package and the packages of this workspace that it may name, dependencies of tests and build scripts included.
const ARROWS: &[(&str, &[&str])] = &[
    ("sluicegate-options", &[]),
    ("sluicegate-cc", &["sluicegate-options"]),
    ("sluicegate-dataplane", &["sluicegate-options"]),
    ("sluicegate-quiche", &[]),
    (
        "sluicegate-config",
        &[
            "sluicegate-cc",
            "sluicegate-dataplane",
            "sluicegate-options",
        ],
    ),
    (
        "sluicegate",
        &[
            "sluicegate-cc",
            "sluicegate-config",
            "sluicegate-dataplane",
            "sluicegate-quiche",
        ],
    ),
    (
        "sluicegate-benches",
        &[
            "sluicegate",
            "sluicegate-cc",
            "sluicegate-config",
            "sluicegate-dataplane",
            "sluicegate-quiche",
        ],
    ),
];

fn root() -> &'static Path {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
    benches.parent().expect("benches/ is in the repository")
}

/// The files that are in the repository or could be added to it, relative to its root.
fn files() -> BTreeSet<PathBuf> {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .args(["--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git says which files belong to the repository");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names = String::from_utf8(output.stdout).expect("names in UTF-8");
    let files: BTreeSet<_> = names
        .split_terminator('\0')
        .map(PathBuf::from)
        .filter(|name| root().join(name).is_file())
        .collect();
    assert!(files.contains(Path::new("Cargo.toml")), "{files:?}");
    files
}

fn read(name: &Path) -> String {
    let bytes = std::fs::read(root().join(name))
        .unwrap_or_else(|error| panic!("{}: {error}", name.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn has_extension(name: &Path, wanted: &str) -> bool {
    name.extension().is_some_and(|found| found == wanted)
}

fn none(defects: &[String]) {
    assert!(defects.is_empty(), "\n{}\n", defects.join("\n"));
}

/// What is wrong with a Rust file of so many lines.
fn size_defect(name: &str, lines: usize) -> Option<String> {
    (lines > MAX_LINES).then(|| format!("{name} has {lines} lines: split it by its jobs"))
}

#[test]
fn rust_files_have_one_job_each() {
    assert_eq!(size_defect("new.rs", MAX_LINES), None);
    assert!(size_defect("new.rs", MAX_LINES + 1).is_some());
    let files = files();
    let rust = files.iter().filter(|name| has_extension(name, "rs"));
    let defects = rust
        .filter_map(|name| size_defect(&name.display().to_string(), read(name).lines().count()));
    none(&defects.collect::<Vec<_>>());
}

/// Packages that a manifest depends on in any way.
fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
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

#[test]
fn crates_depend_in_one_direction() {
    let allowed: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    let workspace: toml::Table = read(Path::new("Cargo.toml")).parse().unwrap();
    let members = workspace["workspace"]["members"].as_array().unwrap();
    assert_eq!(members.len(), allowed.len(), "each member has its arrows");
    let mut defects = Vec::new();
    for member in members {
        let folder = Path::new(member.as_str().unwrap());
        let manifest: toml::Table = read(&folder.join("Cargo.toml")).parse().unwrap();
        let package = manifest["package"]["name"].as_str().unwrap();
        let Some(arrows) = allowed.get(package) else {
            defects.push(format!("{package} has no arrows in this test"));
            continue;
        };
        for name in dependencies(&manifest) {
            if allowed.contains_key(name.as_str()) && !arrows.contains(&name.as_str()) {
                defects.push(format!("{package} must not depend on {name}"));
            }
        }
    }
    none(&defects);
}

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

/// The names in backticks, outside code blocks, that look like files or folders of the repository.
fn paths_in_prose(markdown: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut in_block = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let spans = line.split('`').skip(1).step_by(2);
            paths.extend(spans.filter(|span| is_path(span)).map(str::to_owned));
        }
    }
    paths
}

fn is_path(span: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if span.starts_with(['/', '-']) || span.starts_with("target/") || !span.chars().all(plain) {
        return false;
    }
    let name = Path::new(span);
    let source = ["rs", "md"].iter().any(|e| has_extension(name, e));
    let in_folder = ["toml", "sh", "service", "patch", "html"]
        .iter()
        .any(|e| has_extension(name, e));
    source
        || span.ends_with('/')
        || span.contains('/') && (in_folder || root().join(first_folder(name)).is_dir())
}

fn first_folder(path: &Path) -> PathBuf {
    path.components().take(1).collect()
}

#[test]
fn files_named_in_prose_exist() {
    let files = files();
    let mut defects = Vec::new();
    let mut seen = 0;
    for document in files.iter().filter(|name| has_extension(name, "md")) {
        let folder = document.parent().unwrap_or(Path::new(""));
        let bases = [folder.to_owned(), folder.join("src"), PathBuf::new()];
        for path in paths_in_prose(&read(document)) {
            seen += 1;
            let whole = bases
                .iter()
                .any(|base| root().join(base).join(&path).exists());
            // A file's bare name stands for the one of its crate.
            let bare = !path.contains('/')
                && files
                    .iter()
                    .any(|file| file.starts_with(folder) && file.ends_with(&path));
            if !whole && !bare {
                defects.push(format!("{}: there is no `{path}`", document.display()));
            }
        }
    }
    none(&defects);
    assert!(seen > 20, "only {seen} names were found in prose");
}

#[test]
fn names_of_files_are_told_from_other_code() {
    let text = "Read `cc/src/nowhere.rs`, `cc/nothing`, `gone.md` and `mio/`.\n```sh\ncat `no.rs`\n```\n\
                Not `text/html`, `/etc/x.toml`, `edge.toml`, `cargo test`, `a::b`, `target/release/x.rs`.";
    let expected = ["cc/src/nowhere.rs", "cc/nothing", "gone.md", "mio/"];
    assert_eq!(paths_in_prose(text), expected);
}

/// Where somebody's machine shows in `text`: the home folders, and this very folder.
fn machine_paths(text: &str, here: &str) -> Vec<usize> {
    let homes = [["/home", "/"], ["/Users", "/"], ["/root", "/"]].map(|parts| parts.concat());
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let starts_at = |found: usize| {
            let before = line[..found].chars().next_back();
            before.is_none_or(|c| !c.is_alphanumeric() && !"/.-_)}~".contains(c))
        };
        let mut patterns = homes.iter().map(String::as_str).collect::<Vec<_>>();
        if Path::new(here).components().count() > 2 {
            patterns.push(here);
        }
        if patterns.iter().any(|pattern| {
            line.match_indices(pattern)
                .any(|(found, _)| starts_at(found))
        }) {
            lines.push(number);
        }
    }
    lines
}

#[test]
fn no_file_names_a_path_of_somebodys_machine() {
    let here = root().display().to_string();
    let mut defects = Vec::new();
    for name in files() {
        for line in machine_paths(&read(&name), &here) {
            defects.push(format!("{}:{line}", name.display()));
        }
    }
    none(&defects);
}

#[test]
fn paths_of_a_machine_are_recognised() {
    let home = ["/home", "/jo/x"].concat();
    let text = format!("fine\n\"{home}\"\ncd /builds/edge/cc\nhttps://x.org{home}");
    assert_eq!(machine_paths(&text, "/builds/edge"), [2, 3]);
    assert_eq!(machine_paths(&text, "/builds"), [2]);
}
