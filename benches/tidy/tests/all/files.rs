//! Sizes and names of files, what prose says of them, and what no file may contain.

use std::path::{Path, PathBuf};

use sluicegate_tidy::hardening;
use sluicegate_tidy::module_files::has_old_form;
use sluicegate_tidy::prose::{links_in_prose, machine_paths, paths_in_prose};
use sluicegate_tidy::repository::{files, has_extension, has_test, none, read, root};

/// Most lines of code of a Rust file.
const MAX_LINES: usize = 600;

/// Returns the number of lines that are neither blank nor a comment.
fn lines_of_code(text: &str) -> usize {
    let lines = text.lines().map(str::trim_start);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// Returns the defect of a Rust file.
fn size_defect(name: &str, text: &str) -> Option<String> {
    let lines = lines_of_code(text);
    (lines > MAX_LINES).then(|| format!("{name} has {lines} lines of code: split it by its jobs"))
}

#[test]
fn rust_files_have_one_job_each() {
    let code = "let x;\n\n// why\n".repeat(MAX_LINES);
    assert_eq!(size_defect("new.rs", &code), None);
    assert!(size_defect("new.rs", &format!("{code}let y;")).is_some());
    let files = files();
    let rust = files.iter().filter(|name| has_extension(name, "rs"));
    let defects = rust.filter_map(|name| size_defect(&name.display().to_string(), &read(name)));
    none(&defects.collect::<Vec<_>>());
}

#[test]
fn module_files_stand_beside_their_folders() {
    let files = files();
    let old = files.iter().filter(|name| has_old_form(name));
    let defects = old.map(|name| format!("{}: name it after its module", name.display()));
    none(&defects.collect::<Vec<_>>());
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
            let whole = bases.iter().any(|base| root().join(base).join(&path).exists());
            // A file's bare name stands for the one of its crate.
            let bare = !path.contains('/')
                && files.iter().any(|file| file.starts_with(folder) && file.ends_with(&path));
            if !whole && !bare {
                defects.push(format!("{}: there is no `{path}`", document.display()));
            }
        }
    }
    none(&defects);
    assert!(seen > 20, "only {seen} names were found in prose");
}

#[test]
fn links_in_prose_lead_to_files() {
    let mut defects = Vec::new();
    let mut seen = 0;
    let files = files();
    for document in files.iter().filter(|name| has_extension(name, "md")) {
        let folder = root().join(document.parent().unwrap_or(Path::new("")));
        for target in links_in_prose(&read(document)) {
            seen += 1;
            if !folder.join(&target).exists() {
                defects.push(format!("{}: no file at {target}", document.display()));
            }
        }
    }
    none(&defects);
    assert!(seen > 20, "only {seen} links were found in prose");
}

#[test]
fn cases_of_hardening_name_tests_that_exist() {
    let catalogue = read(Path::new("server/HARDENING.md"));
    none(&hardening::defects(&catalogue, has_test));
    let tests = hardening::tests(&catalogue);
    assert!(tests > 400, "only {tests} tests are named");
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
fn packages_outside_of_the_workspace_are_formatted_too() {
    let manifest: toml::Table = read(Path::new("Cargo.toml")).parse().expect("TOML");
    let excluded = manifest["workspace"]["exclude"].as_array();
    let excluded: Vec<_> =
        excluded.into_iter().flatten().filter_map(|name| name.as_str()).collect();
    let makefile = read(Path::new("Makefile"));
    let line = makefile.lines().find_map(|line| line.strip_prefix("OUTSIDE := "));
    let formatted: Vec<_> = line.unwrap_or_default().split_whitespace().collect();
    assert_eq!(formatted, excluded, "OUTSIDE in Makefile");
    let found = files();
    let manifests = found.iter().filter(|name| name.ends_with("Cargo.toml"));
    let outside = manifests
        .filter(|name| read(name).lines().any(|line| line == "[workspace]"))
        .filter_map(|name| name.parent()?.to_str())
        .filter(|folder| !folder.is_empty());
    let folders: Vec<_> = outside.collect();
    assert_eq!(folders, excluded, "packages outside of the workspace");
}
