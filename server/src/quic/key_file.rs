//! Files of private keys and of secrets: who may read them.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Permissions that a file of secrets must not have: every user may read or write it, or its group may write it. Its group may
/// read it, because services are commonly given a key by a group of their own.
const REFUSED: u32 = 0o026;

/// Error for a file that other users have access to.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: mode {mode:03o} lets other users read or change this secret: chmod 600, or 640 if the server reads it by a group of its own; \
     `server.open_secrets` accepts it as it is",
    path.display()
)]
pub struct TooOpen {
    path: PathBuf,
    mode: u32,
}

impl TooOpen {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(test)]
    pub(crate) fn of(path: &str) -> TooOpen {
        TooOpen {
            path: path.into(),
            mode: 0o644,
        }
    }
}

/// Returns the error if users beside the owner and its group have access to `file`, or its group may change it.
///
/// # Errors
/// The inner error is [`TooOpen`], the outer one the system's.
pub(super) fn check(path: &Path, file: &File) -> io::Result<Result<(), TooOpen>> {
    let mode = file.metadata()?.mode() & 0o777;
    if !is_too_open(mode) {
        return Ok(Ok(()));
    }
    let path = path.to_owned();
    Ok(Err(TooOpen { path, mode }))
}

fn is_too_open(mode: u32) -> bool {
    mode & REFUSED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_others_may_read_or_the_group_may_change_are_too_open() {
        for mode in [0o604, 0o644, 0o602, 0o620, 0o660, 0o666, 0o444] {
            assert!(is_too_open(mode), "{mode:o}");
        }
        for mode in [0o600, 0o400, 0o640, 0o440, 0o700, 0o750] {
            assert!(!is_too_open(mode), "{mode:o}");
        }
    }

    #[test]
    fn the_error_names_file_mode_and_remedy() {
        let path = PathBuf::from("/etc/key.pem");
        let text = TooOpen { path, mode: 0o644 }.to_string();
        for part in [
            "/etc/key.pem",
            "mode 644",
            "chmod 600",
            "server.open_secrets",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains('\n'));
    }
}
