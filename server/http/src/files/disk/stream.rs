//! Streams a file to a client, a block at a time, and reads one ahead: no more while the client takes nothing.
//!
//! Blocks that the kernel has in its memory are read on the origin's thread: passing each to another thread and back costs more
//! than the copy. Only what the disk has to bring is read on threads beside it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::{JoinHandle, spawn_blocking, yield_now};

use super::lend::{PART, lend};
use super::read::{BLOCK, Held, TURN, read, read_cached};
use crate::exchange::handler::{BodySender, Cancelled};

/// Bytes of each of the first two blocks, which is all that a client gets that takes nothing.
pub(super) const FIRST: u64 = 16 * 1024;

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
        Reader { held, slow_until, left: range, tells: true, turn: 0 }
    }

    /// Reads the next block if the kernel has it in its memory, or begins to read it from the disk. Returns `None` at the end of
    /// the range.
    fn begin(&mut self) -> Option<Block> {
        let offset = self.left.start;
        let most = if offset < self.slow_until { FIRST } else { BLOCK };
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
        Some(Block::Reading(spawn_blocking(move || read(&held.file, offset, count))))
    }
}
