//! From a target to an open file: indexes, encodings, and small files read whole. All of it may wait for the disk.

use std::fs::File;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use sluicegate_config::Files;

use super::open::{Found, Root};
use super::stream;
use crate::http::files::{Coding, FileStat, Meta, Preference, Target};

/// A request as far as it matters to which file it gets.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) target: Target,
    pub(super) preference: Preference,
    /// A file of so many bytes is read at once.
    pub(super) whole: u64,
    /// Since 1970.
    pub(super) now: Duration,
}

/// A file to answer with.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) file: File,
    pub(super) meta: Meta,
    /// All of it, if it was to be read at once, and did not change meanwhile.
    pub(super) bytes: Option<Bytes>,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum Miss {
    #[error("no such file")]
    NotFound,
    #[error("a folder whose path lacks the slash")]
    Folder,
    #[error("permission denied, or a symbolic origin_ring that is not to be followed")]
    Forbidden,
    #[error("no acceptable encoding")]
    NotAcceptable,
    /// There are too many open files, or too little memory.
    #[error("{0}")]
    Exhausted(Errno),
    #[error("{0}")]
    Failed(#[from] io::Error),
    #[error("the root cannot be opened: {0}")]
    Root(Errno),
}

impl From<Errno> for Miss {
    fn from(errno: Errno) -> Miss {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::NXIO | Errno::NODEV => {
                Miss::NotFound
            }
            Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV => Miss::Forbidden,
            errno if is_exhaustion(errno) => Miss::Exhausted(errno),
            errno => Miss::Failed(errno.into()),
        }
    }
}

fn is_exhaustion(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN
    )
}

/// Finds what the query asks for below `files.root`.
pub(super) fn locate(files: &Files, query: &Query) -> Result<Located, Miss> {
    let root = Root::open(&files.root, files.symlinks).map_err(|errno| {
        if is_exhaustion(errno) {
            Miss::Exhausted(errno)
        } else {
            Miss::Root(errno)
        }
    })?;
    let (path, file, stat) = original(&root, files, &query.target)?;
    let (file, stat, encoding) = encoded(&root, &path, file, stat, query.preference)?;
    let meta = Meta::new(&path, &stat, encoding, files, query.now);
    let bytes = if stat.size <= query.whole {
        read_whole(&file, &stat)?
    } else {
        None
    };
    Ok(Located { file, meta, bytes })
}

/// The file, or the index of the folder.
fn original(
    root: &Root,
    files: &Files,
    target: &Target,
) -> Result<(Vec<u8>, File, FileStat), Miss> {
    let path = &target.path;
    if !target.folder {
        // The root itself, where the request has only the route's prefix.
        if path.is_empty() {
            return Err(Miss::Folder);
        }
        return match root.find(path)? {
            Found::File(file, stat) => Ok((path.to_vec(), file, stat)),
            Found::Folder => Err(Miss::Folder),
            Found::Other => Err(Miss::NotFound),
        };
    }
    for index in &files.index {
        let mut path = path.to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(index.as_bytes());
        match root.find(&path).map_err(Miss::from) {
            Ok(Found::File(file, stat)) => return Ok((path, file, stat)),
            Ok(Found::Folder | Found::Other) | Err(Miss::NotFound) => {}
            Err(miss) => return Err(miss),
        }
    }
    Err(Miss::NotFound)
}

/// The best encoding that lies beside the original. One that is older is of an earlier state of it, and one that is empty is
/// still being written: neither counts.
fn encoded(
    root: &Root,
    path: &[u8],
    file: File,
    stat: FileStat,
    preference: Preference,
) -> Result<(File, FileStat, Coding), Miss> {
    for coding in preference.codings() {
        if *coding == Coding::Identity {
            return Ok((file, stat, Coding::Identity));
        }
        let variant = [path, coding.suffix().as_bytes()].concat();
        match root.find(&variant) {
            Ok(Found::File(file, found)) if found.size > 0 && !found.is_older(&stat) => {
                return Ok((file, found, *coding));
            }
            Err(errno) if is_exhaustion(errno) => return Err(Miss::Exhausted(errno)),
            _ => {}
        }
    }
    Err(Miss::NotAcceptable)
}

/// `None` where the file is no longer the one that was described.
fn read_whole(file: &File, stat: &FileStat) -> Result<Option<Bytes>, Miss> {
    let bytes = match stream::read(file, 0, stat.size) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let same = FileStat::of(&file.metadata()?) == *stat;
    Ok(same.then_some(bytes))
}
