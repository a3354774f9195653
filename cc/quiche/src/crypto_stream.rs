//! The stream of a packet number space's CRYPTO frames.
//!
//! The build script places this file at `stream/crypto_stream.rs` of the patched source.

use std::cell::OnceCell;
use std::ops::Deref;
use std::ops::DerefMut;

use super::Stream;
use super::MAX_STREAM_WINDOW;

/// Stream of CRYPTO frames, which holds no memory before it is first used.
pub struct CryptoStream(OnceCell<Box<Stream>>);

impl CryptoStream {
    /// Returns a stream that was not used.
    pub const fn new() -> Self {
        CryptoStream(OnceCell::new())
    }

    fn stream() -> Box<Stream> {
        // The ID has no meaning.
        Box::new(Stream::new(0, u64::MAX, u64::MAX, true, MAX_STREAM_WINDOW, MAX_STREAM_WINDOW))
    }

    /// Returns whether there is data to send.
    pub fn is_flushable(&self) -> bool {
        self.0.get().is_some_and(|stream| stream.is_flushable())
    }

    /// Returns whether all that was written was acknowledged, and all that was received was read.
    pub fn is_done(&self) -> bool {
        self.0.get().is_none_or(|stream| {
            stream.send.ack_off() == stream.send.off_back() &&
                stream.recv.off_front() == stream.recv.max_off()
        })
    }

    /// Frees what emptied buffers keep.
    pub fn release(&mut self) {
        if let Some(stream) = self.0.get_mut() {
            stream.release();
        }
    }
}

impl Deref for CryptoStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        self.0.get_or_init(Self::stream)
    }
}

impl DerefMut for CryptoStream {
    fn deref_mut(&mut self) -> &mut Stream {
        if self.0.get().is_none() {
            self.0 = OnceCell::from(Self::stream());
        }
        match self.0.get_mut() {
            Some(stream) => stream,
            None => unreachable!("it was just made"),
        }
    }
}
