//! Programs in the target folder: the server, and what `make` installs for tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

/// The binary that cargo has built for the tests.
const BUILT: &str = env!("CARGO_BIN_EXE_sluicegate");

/// Returns the path of the server: `$SLUICEGATE_TEST_SERVER`, or the one that cargo has built.
#[expect(clippy::disallowed_methods, reason = "the test runner is configured by the environment")]
pub(crate) fn server() -> &'static str {
    static NAMED: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("SLUICEGATE_TEST_SERVER").ok());
    NAMED.as_deref().unwrap_or(BUILT)
}

/// Runs a command of the server to its end.
pub(crate) fn output(command: &str, words: &[&str]) -> Output {
    output_in(Path::new("."), command, words)
}

/// Runs a command of the server to its end in `folder`.
pub(crate) fn output_in(folder: &Path, command: &str, words: &[&str]) -> Output {
    let mut program = Command::new(server());
    program.arg(command).args(words).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

/// Returns the path of a file below the target folder; `None` if it is not there.
pub(crate) fn installed(path: impl AsRef<Path>) -> Option<PathBuf> {
    let file = Path::new(BUILT).parent()?.parent()?.join(path);
    file.is_file().then_some(file)
}
