//! Opens a path name by name, for systems whose filters forbid openat2.
//!
//! Every step begins at an open folder. So whatever is renamed meanwhile, `..` in a link leads back along the steps taken, and never
//! above the root.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// Largest number of links on the way to one file, as in Linux.
const MAX_LINKS: usize = 40;
/// Largest depth of folders.
const MAX_DEPTH: usize = 128;

const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens `path` below `root` with `flags`. With `links`, it follows links that do not lead out of the root.
///
/// # Errors
/// As openat2 with RESOLVE_BENEATH: LOOP for a link, or for too many of them, XDEV for one that leads out.
pub(super) fn open(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    links: bool,
) -> Result<OwnedFd, Errno> {
    let mut folders: Vec<OwnedFd> = Vec::new();
    let mut left = names(path);
    let mut followed = 0;
    while let Some(name) = left.pop() {
        if name == b".." {
            folders.pop().ok_or(Errno::XDEV)?;
            continue;
        }
        let here = folders.last().map_or(root, |folder| folder.as_fd());
        let found = rustix::fs::openat(here, &name[..], LOOK, Mode::empty())?;
        match FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) {
            FileType::Symlink => {
                followed += 1;
                if !links || followed > MAX_LINKS {
                    return Err(Errno::LOOP);
                }
                let target = rustix::fs::readlinkat(&found, "", Vec::new())?;
                if target.as_bytes().starts_with(b"/") {
                    return Err(Errno::XDEV);
                }
                left.extend(names(target.as_bytes()));
            }
            FileType::Directory if folders.len() == MAX_DEPTH => return Err(Errno::NAMETOOLONG),
            FileType::Directory => folders.push(found),
            _ if !left.is_empty() => return Err(Errno::NOTDIR),
            _ => {
                let flags = flags | OFlags::NOFOLLOW;
                return rustix::fs::openat(here, &name[..], flags, Mode::empty());
            }
        }
    }
    let here = folders.last().map_or(root, |folder| folder.as_fd());
    rustix::fs::openat(here, ".", flags, Mode::empty())
}

/// Returns the names of a path, the last one first.
fn names(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/').rev();
    names.filter(|name| !name.is_empty() && *name != b".").map(<[u8]>::to_vec).collect()
}
