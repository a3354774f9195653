//! Opens files below a root, and nothing else.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use sluicegate_config::Symlinks;

use super::walk;
use crate::http::files::FileStat;

/// Flags for reading. A FIFO without a writer, or a device, must not block.
const READ: OFlags = OFlags::NONBLOCK
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);
/// Number of tries for a path while folders on it are being renamed.
const TRIES: u32 = 4;

/// The folder of a route. Each request opens it, so it sees a folder that replaces it.
#[derive(Debug)]
pub(super) struct Root {
    folder: OwnedFd,
    symlinks: Symlinks,
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
    /// Opens the folder. Its path may lead through links, since the operator named it.
    pub(super) fn open(path: &Path, symlinks: Symlinks) -> Result<Root, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        Ok(Root { folder, symlinks })
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

    fn read(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        if self.symlinks == Symlinks::Follow {
            return rustix::fs::openat(&self.folder, path, READ, Mode::empty());
        }
        let links = self.symlinks == Symlinks::Inside;
        match self.ask_kernel(path, links) {
            // Old kernels lack the call, and filters of system calls may not know it.
            Err(Errno::NOSYS | Errno::PERM) => walk::open(self.folder.as_fd(), path, READ, links),
            opened => opened,
        }
    }

    fn ask_kernel(&self, path: &[u8], links: bool) -> Result<OwnedFd, Errno> {
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if !links {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        let open = || rustix::fs::openat2(&self.folder, path, READ, Mode::empty(), resolve);
        for _ in 1..TRIES {
            match open() {
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return opened,
            }
        }
        open()
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
