//! Opens the file of a target: selects index and encoding, and reads small files whole. All of it may wait for the disk, unless the
//! caller wants only what is in memory.

use std::fs::File;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use sluicegate_config::Files;

use super::open::{Found, Root, Wait};
use super::read;
use crate::exchange::{Coding, Preference};
use crate::files::{FilePath, FileStat, describe};
use crate::representation::Metadata;

/// Facts of a request that select its file.
#[derive(Debug)]
pub(super) struct Query {
    /// Targets in the order in which they are tried.
    pub(super) candidates: Vec<Candidate>,
    pub(super) preference: Preference,
    /// Whether a folder without an index does not exist, also where its path lacks the slash.
    pub(super) only_with_index: bool,
    /// Whether the original will do for a client that refuses it, since it is compressed.
    pub(super) compresses: bool,
    /// Largest file that is read at once, bytes.
    pub(super) whole: u64,
    /// Time since 1970.
    pub(super) now: Duration,
}

/// Target that may be the response's file.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) target: FilePath,
    /// Whether it is the target that the request names.
    pub(super) is_requested: bool,
}

/// An open file for a response.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) file: File,
    pub(super) metadata: Metadata,
    /// The whole content, if it was read at once and the file did not change meanwhile.
    pub(super) bytes: Option<Bytes>,
    /// Whether it is the file that the request names.
    pub(super) is_requested: bool,
    /// Whether other requests of the same key may get the file compressed, so that a cache learns nothing from this one.
    pub(super) is_exception: bool,
}

/// Reason for which there is no file.
#[derive(Debug, thiserror::Error)]
pub(super) enum Miss {
    #[error("no such file")]
    NotFound,
    #[error("a folder whose path lacks the slash")]
    Folder,
    #[error("permission denied, or a symbolic link that must not be followed")]
    Forbidden,
    #[error("no acceptable encoding")]
    NotAcceptable,
    /// Too many files are open, or memory is short.
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
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN)
}

/// Finds what the query asks for below `files.root`. With [`Wait::Never`] every error but [`Miss::NotFound`] may mean that it takes
/// another look, which may wait.
pub(super) fn locate(files: &Files, query: &Query, wait: Wait) -> Result<Located, Miss> {
    let root = Root::open(&files.root, files.symlinks, wait).map_err(|errno| {
        if is_exhaustion(errno) { Miss::Exhausted(errno) } else { Miss::Root(errno) }
    })?;
    let ((path, file, stat), is_requested) = first(&root, files, query)?;
    let (file, stat, encoding) = encoded(&root, &path, file, stat, query)?;
    let metadata = describe(&path, &stat, encoding, files, query.now);
    let bytes = if stat.size <= query.whole { read_whole(&file, &stat, wait)? } else { None };
    Ok(Located { file, metadata, bytes, is_requested, is_exception: false })
}

/// File in its original encoding, with its path below the root.
type Original = (Vec<u8>, File, FileStat);

/// Opens the first candidate that exists; the second value says whether the request names it.
fn first(root: &Root, files: &Files, query: &Query) -> Result<(Original, bool), Miss> {
    for Candidate { target, is_requested } in &query.candidates {
        match original(root, files, target) {
            Ok(found) => return Ok((found, *is_requested)),
            Err(Miss::NotFound) => {}
            // The client can add the slash to its own path alone.
            Err(Miss::Folder) if !is_requested => {}
            Err(Miss::Folder) if query.only_with_index => match index(root, files, &target.path) {
                Ok(_) => return Err(Miss::Folder),
                Err(Miss::NotFound) => {}
                Err(miss) => return Err(miss),
            },
            Err(miss) => return Err(miss),
        }
    }
    Err(Miss::NotFound)
}

/// Opens the file, or the index of the folder.
fn original(root: &Root, files: &Files, target: &FilePath) -> Result<Original, Miss> {
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
    index(root, files, path)
}

/// Opens the index of the folder at a path.
fn index(root: &Root, files: &Files, folder: &[u8]) -> Result<Original, Miss> {
    for index in &files.index {
        let mut path = folder.to_vec();
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

/// Opens the best encoding beside the original. Ignores one that is older, since it encodes an earlier state, and one that is empty,
/// since it is still being written.
fn encoded(
    root: &Root,
    path: &[u8],
    file: File,
    stat: FileStat,
    query: &Query,
) -> Result<(File, FileStat, Coding), Miss> {
    for coding in query.preference.codings() {
        if *coding == Coding::Identity {
            return Ok((file, stat, Coding::Identity));
        }
        let variant = [path, coding.suffix().as_bytes()].concat();
        match root.find(&variant) {
            Ok(Found::File(file, found)) if found.size > 0 && !found.is_older(&stat) => {
                return Ok((file, found, *coding));
            }
            Err(errno) if is_exhaustion(errno) => return Err(Miss::Exhausted(errno)),
            // There may be one, where only a look that waits finds it.
            Err(errno) if root.wait == Wait::Never && errno != Errno::NOENT => {
                return Err(errno.into());
            }
            _ => {}
        }
    }
    if query.compresses { Ok((file, stat, Coding::Identity)) } else { Err(Miss::NotAcceptable) }
}

/// Reads the whole file; returns `None` if it changed since `stat`.
fn read_whole(file: &File, stat: &FileStat, wait: Wait) -> Result<Option<Bytes>, Miss> {
    let read = match wait {
        Wait::Allowed => read::read(file, 0, stat.size),
        Wait::Never => read::read_now(file, stat.size),
    };
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let same = FileStat::of(&file.metadata()?) == *stat;
    Ok(same.then_some(bytes))
}
