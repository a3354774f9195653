//! The files of the repository.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the repository's root folder.
#[must_use]
pub fn root() -> &'static Path {
    let tidy = Path::new(env!("CARGO_MANIFEST_DIR"));
    tidy.ancestors().nth(2).expect("benches/tidy/ is in the repository")
}

/// Returns the files that are in the repository or could be added to it, relative to its root.
///
/// # Panics
///
/// When git does not list them.
#[must_use]
pub fn files() -> BTreeSet<PathBuf> {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .args(["--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git says which files belong to the repository");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("names in UTF-8");
    let files: BTreeSet<_> = names
        .split_terminator('\0')
        .map(PathBuf::from)
        .filter(|name| root().join(name).is_file())
        .collect();
    assert!(files.contains(Path::new("Cargo.toml")), "{files:?}");
    files
}

/// Returns the text of a file, whose name is relative to the root.
///
/// # Panics
///
/// When the file cannot be read.
#[must_use]
pub fn read(name: &Path) -> String {
    let bytes = std::fs::read(root().join(name))
        .unwrap_or_else(|error| panic!("{}: {error}", name.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns whether the file's name ends in `.wanted`.
#[must_use]
pub fn has_extension(name: &Path, wanted: &str) -> bool {
    name.extension().is_some_and(|found| found == wanted)
}

/// Fails a test with the list of defects, one per line.
///
/// # Panics
///
/// When there is a defect.
pub fn none(defects: &[String]) {
    assert!(defects.is_empty(), "\n{}\n", defects.join("\n"));
}

/// Returns whether a file has a test of that name.
#[must_use]
pub fn has_test(file: &str, name: &str) -> bool {
    root().join(file).is_file() && read(Path::new(file)).contains(&format!("fn {name}("))
}
