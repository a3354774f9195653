//! Reads files without waiting for a disk, into memory that nobody has filled before.
#![expect(unsafe_code, reason = "neither std nor rustix has preadv2 into uninitialised memory")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Reads up to `count` bytes of a file from `offset` and appends them to `block`, without waiting for a disk (RWF_NOWAIT). Returns
/// how many: fewer if the kernel has only the first ones in its memory or the file ends there, and 0 at the end of the file.
///
/// # Errors
/// `WouldBlock` if the first byte is not in the kernel's memory, and `Unsupported` if the file system cannot tell; what the kernel
/// says otherwise. `block` is as before.
pub fn read_cached(
    file: BorrowedFd<'_>,
    offset: u64,
    count: usize,
    block: &mut Vec<u8>,
) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `read` initialises as many bytes as it returns.
    unsafe { append(block, count, |room| read(file, offset, room)) }
}

/// Reads into memory, and returns how many bytes of it are initialised now.
fn read(
    file: BorrowedFd<'_>,
    offset: libc::off_t,
    room: &mut [MaybeUninit<u8>],
) -> io::Result<usize> {
    let part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    // SAFETY: `part` is valid for the length of the call and describes memory that is valid for writes of its length; the kernel
    // only writes to it, and keeps no pointer.
    let got =
        unsafe { libc::preadv2(file.as_raw_fd(), &raw const part, 1, offset, libc::RWF_NOWAIT) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Appends what `read` writes to the memory that it gets, `count` bytes.
///
/// # Safety
/// The first bytes of that memory are initialised when `read` returns their number.
unsafe fn append(
    block: &mut Vec<u8>,
    count: usize,
    read: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<usize>,
) -> io::Result<usize> {
    block.reserve(count);
    let length = block.len();
    let room = &mut block.spare_capacity_mut()[..count];
    let got = read(room)?.min(count);
    // SAFETY: the bytes before `length` were initialised before, and the `got` bytes behind them by `read`, as the caller
    // promises; both are within the capacity, since `room` was.
    unsafe { block.set_len(length + got) };
    Ok(got)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_was_read_is_appended_and_no_more() {
        let mut block = vec![1, 2];
        for (offered, expected) in [(0, 0), (2, 2), (4, 4), (9, 4)] {
            let read = |room: &mut [MaybeUninit<u8>]| {
                assert_eq!(room.len(), 4);
                for byte in room.iter_mut().take(offered) {
                    byte.write(7);
                }
                Ok(offered)
            };
            // SAFETY: as many bytes are written as returned, or all.
            let got = unsafe { append(&mut block, 4, read) };
            assert_eq!(got.unwrap(), expected);
        }
        assert_eq!(block, [1, 2, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
        // SAFETY: nothing is returned.
        let failed = unsafe { append(&mut block, 100, |_| Err(io::ErrorKind::WouldBlock.into())) };
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(block.len(), 12);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no preadv2")]
    fn a_file_is_read_as_far_as_it_goes() {
        let path = std::env::temp_dir().join(format!("cached-read-{}", std::process::id()));
        let mut file = std::fs::File::create_new(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut block = b"a".to_vec();
        // Some file systems cannot tell.
        let mut read = |offset, count| read_cached(file.as_fd(), offset, count, &mut block).ok();
        if let Some(got) = read(2, 5) {
            assert_eq!((got, read(8, 5), read(10, 5)), (5, Some(2), Some(0)));
            assert_eq!(read(u64::MAX, 1), None);
            assert_eq!(block, b"a2345689");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no preadv2")]
    fn what_has_no_offsets_cannot_be_read() {
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut block = Vec::new();
        let error = read_cached(socket.as_fd(), 0, 1, &mut block).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESPIPE));
        assert_eq!(block.len(), 0);
    }
}
