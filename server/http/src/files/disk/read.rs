//! Reads a file: from the kernel's memory without waiting, or from the disk.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use tokio::sync::OwnedSemaphorePermit;

/// Bytes read at once.
pub(super) const BLOCK: u64 = 64 * 1024;
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
