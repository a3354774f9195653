//! Looks at what is below a folder, for handlers whose files another process opens.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;
use sluicegate_config::Symlinks;
use tokio::task::spawn_blocking;

use super::FileServer;
use super::open::{Root, Wait};

/// Kind of file to which a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// A regular file, which may be closed to this process.
    File,
    Folder,
    /// Nothing, or a socket, a FIFO, a device.
    Nothing,
}

/// A folder to look below, by the rules for the files of a route.
#[derive(Debug)]
pub(crate) struct Below(Root);

impl Below {
    /// Opens the folder for looks that may wait.
    ///
    /// # Errors
    /// It cannot be entered.
    #[cfg(test)]
    pub(crate) fn open(root: &Path, symlinks: Symlinks) -> Result<Below, Errno> {
        Root::open(root, symlinks, Wait::Allowed).map(Below)
    }

    /// Looks at a path without `..`, an empty one for the folder itself.
    ///
    /// # Errors
    /// The path leads through a folder that is closed, or a link that must not be followed; or nobody knows.
    pub(crate) fn look(&self, path: &[u8]) -> Result<Look, Errno> {
        if path.is_empty() {
            return Ok(Look::Folder);
        }
        match self.0.file_type(path) {
            Ok(FileType::RegularFile) => Ok(Look::File),
            Ok(FileType::Directory) => Ok(Look::Folder),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Ok(Look::Nothing),
            Err(errno) => Err(errno),
        }
    }
}

impl FileServer {
    /// Returns what `choose` chooses by looks below `root`. It is called again, on a thread that may wait, where the kernel does not
    /// have everything in its memory.
    ///
    /// # Errors
    /// Those of the looks, or the folder cannot be entered.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        root: &Path,
        symlinks: Symlinks,
        choose: impl Fn(&Below) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, Errno> {
        let at_once = Root::open(root, symlinks, Wait::Never).map(Below);
        if let Ok(chosen) = at_once.and_then(|below| choose(&below)) {
            return Ok(chosen);
        }
        let turn = Arc::clone(&self.looking).acquire_owned().await;
        let root = root.to_owned();
        let looked = spawn_blocking(move || {
            let _turn = turn;
            choose(&Below(Root::open(&root, symlinks, Wait::Allowed)?))
        });
        let failed = |error| Errno::from_io_error(&io::Error::other(error)).unwrap_or(Errno::IO);
        looked.await.unwrap_or_else(|error| Err(failed(error)))
    }
}
