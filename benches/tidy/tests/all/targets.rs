//! Targets that cargo builds for tests: few programs, and no test left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sluicegate_tidy::crates::members;
use sluicegate_tidy::repository::{files, has_extension, none, read, root};
use sluicegate_tidy::tree::Tree;

/// Programs of integration tests beside another one of their crate, with the reason.
const APART: [(&str, &str); 5] = [
    ("cc/tests/allocations.rs", "has an allocator of its own"),
    ("dataplane/dpdk/tests/end.rs", "ends the environment of DPDK, which a process sees once"),
    ("dataplane/frames/tests/allocation.rs", "has an allocator of its own"),
    ("dataplane/tests/allocation.rs", "has an allocator of its own"),
    (
        "dataplane/tests/forbidden.rs",
        "forbids its threads system calls that the conformance suite makes",
    ),
];

/// Returns the folder of the crate whose integration tests begin with this file.
fn crate_of(file: &Path) -> Option<&Path> {
    let program = if file.ends_with("main.rs") { file.parent()? } else { file };
    let tests = program.parent()?;
    let is_program = tests.ends_with("tests") && has_extension(file, "rs");
    tests.parent().filter(|_| is_program)
}

#[test]
fn integration_tests_of_a_crate_are_one_program() {
    let folder = Some(Path::new("cc"));
    assert_eq!(crate_of(Path::new("cc/tests/all/main.rs")), folder);
    assert_eq!(crate_of(Path::new("cc/tests/allocations.rs")), folder);
    assert_eq!(crate_of(Path::new("cc/tests/all/undo.rs")), None);
    let folders: BTreeSet<_> = members().into_iter().map(|member| member.folder).collect();
    let mut programs = BTreeMap::<PathBuf, Vec<PathBuf>>::new();
    for file in files() {
        let is_apart = APART.iter().any(|(name, _)| Path::new(name) == file);
        if let Some(folder) = crate_of(&file)
            && folders.contains(folder)
            && !is_apart
        {
            let folder = folder.to_owned();
            programs.entry(folder).or_default().push(file);
        }
    }
    let several = programs.into_values().filter(|programs| programs.len() > 1);
    let defects = several.map(|programs| format!("modules of one program, not {programs:?}"));
    none(&defects.collect::<Vec<_>>());
}

/// cargo finds programs by itself, but not the modules of one: a file that none declares would never be compiled.
#[test]
fn files_of_integration_tests_are_modules_of_their_program() {
    let source = |file: &Path| root().join(file).is_file().then(|| read(file));
    let files = files();
    let mains = files.iter().filter(|file| file.ends_with("main.rs") && crate_of(file).is_some());
    let mut defects = Vec::new();
    for main in mains {
        let tree = Tree::read(&source, main);
        let modules: BTreeSet<_> = tree.modules.iter().map(|module| &module.file).collect();
        let folder = main.parent().expect("a folder");
        let here =
            files.iter().filter(|file| file.starts_with(folder) && has_extension(file, "rs"));
        for file in here.filter(|file| !modules.contains(file) && *file != main) {
            let (file, main) = (file.display(), main.display());
            defects.push(format!("{file}: no module of {main}"));
        }
    }
    none(&defects);
}

/// Returns whether the table says that cargo leaves the target out of `kind`, such as `test`.
fn is_off(target: Option<&toml::Value>, kind: &str) -> bool {
    target.and_then(|target| target.get(kind)) == Some(&toml::Value::Boolean(false))
}

fn manifest(folder: &Path) -> toml::Table {
    read(&folder.join("Cargo.toml")).parse().expect("TOML")
}

/// Returns whether rustdoc compiles a block of code in these documentation comments.
fn has_doc_test(text: &str) -> bool {
    let fences = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        doc?.trim_start().strip_prefix("```")
    });
    // Every second fence ends a block.
    fences.step_by(2).any(|language| language != "text")
}

#[test]
fn libraries_with_doc_tests_and_no_others_run_them() {
    assert!(has_doc_test("/// ```text\n/// ```\n/// ```\n/// f();"));
    assert!(!has_doc_test("//! ```text\n//! f();\n//! ```"));
    let files = files();
    let mut defects = Vec::new();
    for folder in members().into_iter().map(|member| member.folder) {
        let source = folder.join("src");
        if !root().join(&source).join("lib.rs").is_file() {
            continue;
        }
        let mut rust =
            files.iter().filter(|name| name.starts_with(&source) && has_extension(name, "rs"));
        let has_some = rust.any(|name| has_doc_test(&read(name)));
        if has_some == is_off(manifest(&folder).get("lib"), "doctest") {
            let folder = folder.display();
            defects.push(format!(
                "{folder}/Cargo.toml: `doctest = false` is for libraries without doc tests, and for all of them"
            ));
        }
    }
    none(&defects);
}

#[test]
fn programs_whose_tests_are_off_have_none() {
    let source = |file: &Path| root().join(file).is_file().then(|| read(file));
    let mut defects = Vec::new();
    for folder in members().into_iter().map(|member| member.folder) {
        let manifest = manifest(&folder);
        let programs = manifest.get("bin").and_then(toml::Value::as_array);
        let off = programs.into_iter().flatten().filter(|program| is_off(Some(*program), "test"));
        for program in off {
            let text = |key| program.get(key).and_then(toml::Value::as_str);
            let named = text("name").map(|name| format!("src/bin/{name}.rs"));
            let file = text("path").map(str::to_owned).or(named);
            let tree = Tree::read(&source, &folder.join(file.expect("a name")));
            let files: BTreeSet<_> = tree.modules.iter().map(|module| &module.file).collect();
            let tested = files.into_iter().filter(|file| read(file).contains("#[cfg(test)]"));
            defects
                .extend(tested.map(|file| {
                    format!("{}: `test = false` leaves its tests out", file.display())
                }));
        }
    }
    none(&defects);
}
