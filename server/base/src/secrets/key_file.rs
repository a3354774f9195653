//! Files of private keys and of secrets: who may read or change them.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};

/// Permissions that a file of secrets must not have: every user may read or write it, or its group may write it. Its group may
/// read it, because services are commonly given a key by a group of their own.
const REFUSED: u32 = 0o026;
/// Permission of every user to add, rename and delete files of a folder.
const OTHERS_WRITE: u32 = 0o002;
/// Mode of a folder in which users may rename and delete their own files alone, as in /tmp.
const STICKY: u32 = 0o1000;

/// Error for a file that other users have access to.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}; `server.open_secrets` accepts it as it is", path.display())]
pub struct TooOpen {
    path: PathBuf,
    reason: Reason,
}

/// Way in which other users have access.
#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error(
        "mode {0:03o} lets other users read or change this secret: chmod 600, or 640 if the server reads it by a group of its own"
    )]
    Mode(u32),
    #[error(
        "every user may replace this secret, because they may write to {} (mode {mode:03o}): chmod o-w that folder",
        folder.display()
    )]
    Folder { folder: PathBuf, mode: u32 },
}

impl TooOpen {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what is wrong with the file and the remedy, for a process without `server.open_secrets`.
    pub fn reason(&self) -> impl std::fmt::Display {
        &self.reason
    }

    /// Returns the error for a file that everybody may read.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub fn of(path: &str) -> TooOpen {
        TooOpen { path: path.into(), reason: Reason::Mode(0o644) }
    }
}

/// Returns the error if users beside the owner and its group have access to `file`, if its group may change it, or if every user may
/// replace it. Warns if it belongs to a user who is neither root nor that of this process.
///
/// # Errors
/// The inner error is [`TooOpen`], the outer one the system's.
pub fn check(path: &Path, file: &File) -> io::Result<Result<(), TooOpen>> {
    let found = file.metadata()?;
    let refused = |reason| {
        let path = path.to_owned();
        Ok(Err(TooOpen { path, reason }))
    };
    let mode = found.mode() & 0o777;
    if is_too_open(mode) {
        return refused(Reason::Mode(mode));
    }
    if let Some((folder, mode)) = open_folder(path)? {
        return refused(Reason::Folder { folder, mode });
    }
    if is_foreign(found.uid(), rustix::process::geteuid().as_raw()) {
        let (path, owner) = (path.display(), found.uid());
        tracing::warn!(
            %path, owner,
            "a secret belongs to another user, who may change it: give it to root or to the server's user by chown"
        );
    }
    Ok(Ok(()))
}

fn is_too_open(mode: u32) -> bool {
    mode & REFUSED != 0
}

fn is_foreign(owner: u32, user: u32) -> bool {
    owner != 0 && owner != user
}

/// Returns the first folder above a file, as it is named or as links lead to it, to which every user may write.
fn open_folder(path: &Path) -> io::Result<Option<(PathBuf, u32)>> {
    let (named, found) = (absolute(path)?, path.canonicalize()?);
    let folders = [&named, &found].into_iter().flat_map(|path| path.ancestors().skip(1));
    for folder in folders {
        let mode = folder.metadata()?.mode() & 0o7777;
        if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
            return Ok(Some((folder.to_owned(), mode)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

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
    fn only_root_and_the_own_user_may_own_a_secret_without_a_warning() {
        for (owner, user, expected) in [
            (0, 0, false),
            (0, 1000, false),
            (1000, 1000, false),
            (1000, 0, true),
            (1000, 1001, true),
        ] {
            assert_eq!(is_foreign(owner, user), expected, "{owner} {user}");
        }
    }

    #[test]
    fn a_secret_in_a_folder_that_every_user_may_write_to_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let outer = root.path().canonicalize().unwrap().join("outer");
        let inner = outer.join("inner");
        fs::create_dir_all(&inner).unwrap();
        let key = inner.join("key.pem");
        fs::write(&key, "secret").unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        let set = |folder: &Path, mode| {
            fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
        };
        let refusal = |path: &Path| {
            let file = File::open(path).unwrap();
            check(path, &file).unwrap().err().map(|error| error.to_string())
        };
        let elsewhere = root.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let link = elsewhere.join("key.pem");
        symlink(&key, &link).unwrap();
        for mode in [0o755, 0o700, 0o775, 0o1777] {
            set(&inner, mode);
            assert_eq!((refusal(&key), refusal(&link)), (None, None), "{mode:o}");
        }
        for (folder, others) in [(&inner, &outer), (&outer, &inner), (&elsewhere, &inner)] {
            set(others, 0o755);
            set(folder, 0o777);
            let text = refusal(&link).unwrap();
            for part in
                [&*folder.display().to_string(), "mode 777", "chmod o-w", "server.open_secrets"]
            {
                assert!(text.contains(part), "{text}");
            }
            set(folder, 0o755);
        }
    }

    #[test]
    fn the_error_names_file_mode_and_remedy() {
        let text = TooOpen::of("/etc/key.pem").to_string();
        for part in ["/etc/key.pem", "mode 644", "chmod 600", "server.open_secrets"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains('\n'));
    }
}
