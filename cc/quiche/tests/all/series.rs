//! The command that keeps the patches as commits.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::refusals::{patch, source};

/// Runs the command of the package in `folder`, and returns its status and all that it printed.
fn series(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let out = Command::new(folder.join("series"))
        .args(arguments)
        .env("CARGO", env!("CARGO"))
        .output()
        .expect("bash runs it");
    (out.status.code(), text_of(&out))
}

fn text_of(out: &Output) -> String {
    let bytes = [out.stdout.as_slice(), out.stderr.as_slice()].concat();
    String::from_utf8(bytes).expect("UTF-8")
}

fn git(folder: &Path, arguments: &[&str]) {
    let out = Command::new("git")
        .args(["-c", "user.name=test", "-c", "user.email=test@localhost"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_EDITOR", "true")
        .output()
        .expect("git runs");
    assert!(out.status.success(), "{}", text_of(&out));
}

/// The package with the patches in use.
fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns a folder for exports: the package with what the command reads, and without patches.
fn another_package() -> TempDir {
    let copy = TempDir::new().expect("folder");
    for name in ["series", "Cargo.toml", "build/patch.rs"] {
        let target = copy.path().join(name);
        fs::create_dir_all(target.parent().expect("parent")).expect("folder");
        fs::copy(package().join(name), target).expect("copied");
    }
    for name in patch::SERIES {
        fs::create_dir_all(copy.path().join("patches").join(name)).expect("folder");
    }
    copy
}

/// Returns each patch of a package with its text.
fn patches(package: &Path) -> BTreeMap<String, String> {
    let root = package.join("patches");
    let files = source::files(&root).expect("patches");
    let named = files.iter().map(|path| {
        let name = path.strip_prefix(&root).expect("below it");
        let text = source::read(path).expect("text");
        (name.display().to_string(), text)
    });
    named.collect()
}

/// Returns a folder with the published `src/` as another release might have it: with fixes/05, and with another line where
/// fixes/03 changes one.
fn another_release() -> TempDir {
    let release = TempDir::new().expect("folder");
    let published = Path::new(env!("QUICHE_EXAMPLES")).with_file_name("src");
    source::copy(&published, &release.path().join("src")).expect("copied");
    let fix = package().join("patches/fixes/05-padding-counts.patch");
    git(release.path(), &["apply", &fix.display().to_string()]);
    let file = release.path().join("src/recovery/gcongestion/recovery.rs");
    let text = source::read(&file).expect("text");
    let next = "\n                    .to_bytes_per_second(),";
    let (ours, theirs) = (format!("&self.rtt_stats){next}"), format!("&self.rtt_stats,){next}"));
    assert_eq!(text.matches(&ours).count(), 1);
    source::write(&file, &text.replace(&ours, &theirs)).expect("written");
    release
}

#[test]
fn checkout_and_export_change_nothing() {
    let (repository, copy) = (TempDir::new().expect("folder"), another_package());
    let folder = repository.path().display().to_string();
    assert_eq!(series(package(), &["checkout", &folder]), (Some(0), String::new()));
    assert_eq!(series(copy.path(), &["export", &folder]), (Some(0), String::new()));
    let (before, after) = (patches(package()), patches(copy.path()));
    assert!(before.keys().eq(after.keys()), "{:?}", after.keys());
    for (name, text) in before {
        assert_eq!(after[&name], text, "{name}");
    }
}

#[test]
fn patches_that_a_release_contains_or_conflicts_with_are_named() {
    let release = another_release();
    let (status, said) = series(package(), &["upstream", &release.path().display().to_string()]);
    let all = patches(package()).len();
    for line in [
        "upstream      fixes/05-padding-counts\n",
        "still needed  fixes/04-emptied-stream\n",
        "conflicts     fixes/03-qlog-pacing: look at src/recovery/gcongestion/recovery.rs\n",
        &format!("\n1 upstream, {} still needed, 1 with conflicts\n", all - 2),
    ] {
        assert!(said.contains(line), "{line}{said}");
    }
    assert_eq!(status, Some(1));
}

#[test]
fn rebased_patches_fit_the_release() {
    let (release, copy) = (another_release(), another_package());
    let repository = TempDir::new().expect("folder");
    let folder = repository.path().display().to_string();
    let rebase = ["rebase", &release.path().display().to_string(), &folder];
    let (status, said) = series(package(), &rebase);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("CONFLICT") && said.contains("git rebase --continue"), "{said}");
    let (status, said) = series(copy.path(), &["export", &folder]);
    assert_eq!(status, Some(1));
    assert!(said.ends_with("a rebase is under way\n"), "{said}");

    git(repository.path(), &["checkout", "-q", "--theirs", "."]);
    git(repository.path(), &["add", "-A"]);
    git(repository.path(), &["rebase", "--continue"]);
    assert_eq!(series(copy.path(), &["export", &folder]), (Some(0), String::new()));
    let names = patches(copy.path());
    assert_eq!(names.len(), patches(package()).len() - 1);
    assert!(names.contains_key("fixes/05-shared-packets.patch"), "{names:?}");
    for patch in patch::series(&copy.path().join("patches")).expect("series") {
        patch.apply(&release.path().join("src")).expect("applied");
    }
}

#[test]
fn wrong_arguments_are_explained() {
    let (status, help) = series(package(), &["--help"]);
    assert_eq!(status, Some(0));
    for command in ["checkout", "export", "rebase", "upstream"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        let (status, said) = series(package(), &[command]);
        assert_eq!(status, Some(2));
        assert!(said.starts_with(&format!("error: expected: {command} ")), "{said}");
    }
    for (arguments, status, error) in [
        (vec![], 2, "no command"),
        (vec!["fetch"], 2, "unknown command `fetch`"),
        (vec!["upstream", "newest"], 1, "newest: neither a folder nor a version"),
        (vec!["upstream", "/"], 1, "/: no src/lib.rs"),
        (vec!["checkout", "/"], 1, "/: not empty"),
        (vec!["export", "/dev"], 1, "/dev: no branch `published`"),
    ] {
        let (code, said) = series(package(), &arguments);
        assert_eq!(code, Some(status), "{said}");
        assert!(said.starts_with(&format!("error: {error}\n")), "{said}");
    }
}
