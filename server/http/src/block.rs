//! Reads of the byte streams that tunnels consist of.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

/// Largest block, bytes.
const BLOCK: usize = 16 << 10;

/// Reads what is there, at most 16 KiB; an empty block at the end. Nothing is held while there is nothing to read.
///
/// # Errors
/// Those of the stream.
pub fn poll_block(
    read: &mut (impl AsyncRead + Unpin),
    cx: &mut Context<'_>,
) -> Poll<io::Result<Bytes>> {
    let mut room = [MaybeUninit::uninit(); BLOCK];
    let mut buffer = ReadBuf::uninit(&mut room);
    let polled = Pin::new(read).poll_read(cx, &mut buffer);
    polled.map_ok(|()| Bytes::copy_from_slice(buffer.filled()))
}
