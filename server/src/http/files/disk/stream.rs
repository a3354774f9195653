//! Streams a file to a client, a block at a time, and reads one ahead: no more while the client takes nothing.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::http::exchange::handler::{BodySender, Cancelled};

/// Bytes read at once.
pub(super) const BLOCK: u64 = 64 * 1024;
/// Bytes of each of the first two blocks, which is all that a client gets that takes nothing.
pub(super) const FIRST: u64 = 16 * 1024;

/// A file that stays open while it is sent; a read that has begun outlives its client.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) file: File,
    /// Place among the open files.
    pub(super) _permit: OwnedSemaphorePermit,
}

/// Reason for which a body ends early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The file is closed in favour of another client.
    #[error("too many files are open")]
    Revoked,
    /// The disk failed, or the file is shorter now than the head says.
    #[error(transparent)]
    Disk(#[from] io::Error),
}

/// Sends a range of a file.
pub(super) async fn send(
    held: &Arc<Held>,
    range: Range<u64>,
    writer: &mut BodySender,
) -> Result<(), Broken> {
    let mut offset = range.start;
    let mut ahead = begin(held, &range, offset);
    while offset < range.end {
        let block = ahead.await.map_err(io::Error::other)??;
        offset += block.len() as u64;
        writer.ready().await?;
        ahead = begin(held, &range, offset);
        writer.data(block).await?;
    }
    Ok(())
}

fn begin(held: &Arc<Held>, range: &Range<u64>, offset: u64) -> JoinHandle<io::Result<Bytes>> {
    let held = Arc::clone(held);
    let most = if offset - range.start < 2 * FIRST {
        FIRST
    } else {
        BLOCK
    };
    let count = most.min(range.end - offset);
    spawn_blocking(move || read(&held.file, offset, count))
}

/// Reads exactly `count` bytes.
///
/// # Errors
/// `UnexpectedEof` if the file has fewer.
pub(super) fn read(file: &File, offset: u64, count: u64) -> io::Result<Bytes> {
    let size = usize::try_from(count).map_err(io::Error::other)?;
    if size == 0 {
        return Ok(Bytes::new());
    }
    let mut block = Vec::with_capacity(size);
    while block.len() < size {
        let place = offset + block.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut block), place) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // The vector may have more room than was asked for, and the file more bytes.
    block.truncate(size);
    Ok(Bytes::from(block))
}
