//! Programs that `make` installs into the target folder for tests.

use std::path::{Path, PathBuf};

/// Returns the path of a file below the target folder; `None` if it is not there.
pub(crate) fn installed(path: impl AsRef<Path>) -> Option<PathBuf> {
    let binary = Path::new(env!("CARGO_BIN_EXE_sluicegate"));
    let file = binary.parent()?.parent()?.join(path);
    file.is_file().then_some(file)
}
