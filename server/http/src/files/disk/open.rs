//! Opens files below a root, and nothing else.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use sluicegate_config::Symlinks;

use super::walk;
use crate::files::FileStat;

/// Flags for reading. A FIFO without a writer, or a device, must not block.
const READ: OFlags = OFlags::NONBLOCK.union(OFlags::CLOEXEC).union(OFlags::NOCTTY);
/// File systems that open a file without waiting for another machine or process once its path is in memory.
const LOCAL: [i64; 5] = [
    libc::BTRFS_SUPER_MAGIC,
    libc::EXT4_SUPER_MAGIC,
    libc::F2FS_SUPER_MAGIC,
    libc::TMPFS_MAGIC,
    libc::XFS_SUPER_MAGIC,
];
/// Number of tries for a path while folders on it are being renamed.
const TRIES: u32 = 4;

/// The folder of a route. Each request opens it, so it sees a folder that replaces it.
#[derive(Debug)]
pub(super) struct Root {
    folder: OwnedFd,
    symlinks: Symlinks,
    pub(super) wait: Wait,
}

/// Whether a look at a folder may wait for its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Allowed,
    /// What is not in the kernel's memory is an error, as is another file system behind the root.
    Never,
}

/// A file, a folder or something else at the end of a path.
#[derive(Debug)]
pub(super) enum Found {
    File(File, FileStat),
    Folder,
    /// A socket, a FIFO, a device.
    Other,
}

impl Root {
    /// Opens the folder. Its path may lead through links, since the operator named it. With [`Wait::Never`] only a folder of a
    /// local file system can be opened.
    pub(super) fn open(path: &Path, symlinks: Symlinks, wait: Wait) -> Result<Root, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match wait {
            Wait::Allowed => rustix::fs::openat(CWD, path, flags, Mode::empty())?,
            Wait::Never => {
                let cached = ResolveFlags::CACHED;
                let folder = rustix::fs::openat2(CWD, path, flags, Mode::empty(), cached)?;
                // The open of a file on a network asks its server, whatever is in memory.
                if !LOCAL.contains(&rustix::fs::fstatfs(&folder)?.f_type) {
                    return Err(Errno::AGAIN);
                }
                folder
            }
        };
        Ok(Root { folder, symlinks, wait })
    }

    /// Returns what is at `path`, which is relative, not empty and without `..`.
    pub(super) fn find(&self, path: &[u8]) -> Result<Found, Errno> {
        let file = File::from(self.read(path)?);
        let metadata = file.metadata().map_err(|error| errno(&error))?;
        Ok(if metadata.is_file() {
            Found::File(file, FileStat::of(&metadata))
        } else if metadata.is_dir() {
            Found::Folder
        } else {
            Found::Other
        })
    }

    /// Returns the type of what is at `path`, which is as for [`Root::find`]. It needs no permission to read.
    pub(super) fn file_type(&self, path: &[u8]) -> Result<FileType, Errno> {
        let found = self.open_below(path, OFlags::PATH | OFlags::CLOEXEC)?;
        Ok(FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode))
    }

    fn read(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.open_below(path, READ)
    }

    fn open_below(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        if self.wait == Wait::Never {
            return self.ask_memory(path, flags);
        }
        if self.symlinks == Symlinks::Follow {
            return rustix::fs::openat(&self.folder, path, flags, Mode::empty());
        }
        let links = self.symlinks == Symlinks::Inside;
        match self.ask_kernel(path, links, flags) {
            // Old kernels lack the call, and filters of system calls may not know it.
            Err(Errno::NOSYS | Errno::PERM) => walk::open(self.folder.as_fd(), path, flags, links),
            opened => opened,
        }
    }

    /// Opens what the kernel finds without waiting, and on no other file system.
    fn ask_memory(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = match self.symlinks {
            Symlinks::Follow => ResolveFlags::empty(),
            Symlinks::Inside => bounds(true),
            Symlinks::Never => bounds(false),
        };
        let resolve = resolve | ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
        rustix::fs::openat2(&self.folder, path, flags, Mode::empty(), resolve)
    }

    fn ask_kernel(&self, path: &[u8], links: bool, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = bounds(links);
        let open = || rustix::fs::openat2(&self.folder, path, flags, Mode::empty(), resolve);
        for _ in 1..TRIES {
            match open() {
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return opened,
            }
        }
        open()
    }
}

/// Returns how the kernel is to resolve a path below the root.
fn bounds(links: bool) -> ResolveFlags {
    let below = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if links { below } else { below | ResolveFlags::NO_SYMLINKS }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
