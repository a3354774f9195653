//! Streams a file to a client, a block at a time, and reads one ahead: no more while the client takes nothing.
//!
//! Blocks that the kernel has in its memory are read on the origin's thread: passing each to another thread and back costs more
//! than the copy. Only what the disk has to bring is read on threads beside it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinHandle, spawn_blocking, yield_now};

use super::lend::{PART, lend};
use crate::http::exchange::handler::{BodySender, Cancelled};

/// Bytes read at once.
pub(super) const BLOCK: u64 = 64 * 1024;
/// Bytes of each of the first two blocks, which is all that a client gets that takes nothing.
pub(super) const FIRST: u64 = 16 * 1024;
/// Bytes that a response reads from the kernel's memory before other tasks of the thread run. It bounds their wait where
/// `limits.stream_buffer` is large.
pub(super) const TURN: u64 = 256 * 1024;

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

/// Sends a range of a file, with which the response ends or not. The front reads what is in memory, if it can.
pub(super) async fn send(
    held: &Arc<Held>,
    range: Range<u64>,
    ends: bool,
    writer: &mut BodySender,
) -> Result<(), Broken> {
    let (slow_until, mut left) = (range.start.saturating_add(2 * FIRST), range);
    while writer.may_lend() && !left.is_empty() {
        let mut part = left.start..left.end.min(left.start.saturating_add(PART));
        left.start = part.end;
        if let Some(lent) = lend(held, part.clone(), ends && left.is_empty()) {
            part.start += writer.lend(lent).await?;
        }
        stream(Reader::new(held, part, slow_until), writer).await?;
    }
    stream(Reader::new(held, left, slow_until), writer).await
}

/// Sends what the reader reads, a block at a time.
async fn stream(mut reader: Reader<'_>, writer: &mut BodySender) -> Result<(), Broken> {
    let mut ahead = reader.begin();
    while let Some(block) = ahead {
        let block = match block {
            Block::Read(bytes) => bytes,
            Block::Reading(reading) => reading.await.map_err(io::Error::other)??,
        };
        writer.ready().await?;
        if reader.turn >= TURN {
            reader.turn = 0;
            yield_now().await;
        }
        ahead = reader.begin();
        writer.data(block).await?;
    }
    Ok(())
}

/// A block of a file that is sent next.
enum Block {
    Read(Bytes),
    /// On a thread that may wait for the disk.
    Reading(JoinHandle<io::Result<Bytes>>),
}

/// Reads a range of a file, block after block.
struct Reader<'a> {
    held: &'a Arc<Held>,
    /// Range that is still to be read.
    left: Range<u64>,
    /// Offset behind the first two blocks of the response.
    slow_until: u64,
    /// Whether the file system can tell what the kernel has in its memory.
    tells: bool,
    /// Bytes read on this thread since other tasks ran.
    turn: u64,
}

impl Reader<'_> {
    fn new(held: &Arc<Held>, range: Range<u64>, slow_until: u64) -> Reader<'_> {
        Reader {
            held,
            slow_until,
            left: range,
            tells: true,
            turn: 0,
        }
    }

    /// Reads the next block if the kernel has it in its memory, or begins to read it from the disk. Returns `None` at the end of
    /// the range.
    fn begin(&mut self) -> Option<Block> {
        let offset = self.left.start;
        let most = if offset < self.slow_until {
            FIRST
        } else {
            BLOCK
        };
        let count = most.min(self.left.end.saturating_sub(offset));
        if count == 0 {
            return None;
        }
        self.left.start += count;
        if self.tells {
            match read_cached(&self.held.file, offset, count) {
                Ok(Some(block)) => {
                    self.turn += count;
                    return Some(Block::Read(block));
                }
                Ok(None) => {}
                Err(_) => self.tells = false,
            }
        }
        let held = Arc::clone(self.held);
        // Whoever waits for it, the others run meanwhile.
        self.turn = 0;
        Some(Block::Reading(spawn_blocking(move || {
            read(&held.file, offset, count)
        })))
    }
}

/// Reads exactly `count` bytes without waiting for a disk; returns `None` unless the kernel has all of them in its memory.
/// [`read`] returns why, if the file ends before.
///
/// # Errors
/// The file system cannot tell what is in memory, or the disk fails.
pub(super) fn read_cached(file: &File, offset: u64, count: u64) -> io::Result<Option<Bytes>> {
    let size = usize::try_from(count).map_err(io::Error::other)?;
    let mut block = Vec::with_capacity(size);
    match sluicegate_dataplane::read_cached(file.as_fd(), offset, size, &mut block) {
        Ok(got) => Ok((got == size).then(|| Bytes::from(block))),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        },
    }
}

/// Reads the first `count` bytes without waiting for a disk.
///
/// # Errors
/// `WouldBlock` if the kernel does not have all of them in its memory, or if they take more than a turn; or as [`read_cached`].
pub(super) fn read_now(file: &File, count: u64) -> io::Result<Bytes> {
    if count > TURN {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    read_cached(file, 0, count)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file
    }

    #[test]
    fn what_is_in_memory_is_read_whole_or_not_at_all() {
        let file = file(b"0123456789");
        // Some file systems cannot tell.
        if let Ok(found) = read_cached(&file, 2, 5) {
            assert!(found.is_none_or(|found| *found == *b"23456"));
            for beyond in [(6, 5), (10, 1), (20, 1)] {
                assert_eq!(read_cached(&file, beyond.0, beyond.1).unwrap(), None);
            }
        }
        assert_eq!(*read(&file, 2, 5).unwrap(), *b"23456");
        let error = read(&file, 6, 5).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_cannot_be_read_at_once_is_an_error() {
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(socket));
        let error = read_cached(&file, 0, 1).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::SPIPE));
    }
}
