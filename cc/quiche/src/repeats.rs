//! Bound on the frames of a packet that are about its connection as a whole, or hardly about anything.
//!
//! The build script places this file at `repeats.rs` of the patched source.

use crate::frame::Frame;
use crate::packet::Epoch;
use crate::Error;
use crate::Result;

/// Frames about the connection as a whole that a packet with application data may contain. The last frame of a kind says
/// all, but for connection IDs, of which each side has at most 16. STREAM frames count if they are [`TINY`].
const MOST: u8 = 32;

/// Bytes of a STREAM frame that is smaller than any frame of HTTP/3 with a payload.
const TINY: usize = 3;

/// The same for packets of the handshake. Chrome splits its first message at random, into up to 11 CRYPTO frames of a packet
/// with up to 10 PING frames between them.
const MOST_OF_HANDSHAKE: u8 = 64;

/// Count of the frames of one packet that are about its connection as a whole, or hardly about anything.
///
/// A packet of 1,200 bytes has room for 1,200 PING frames, 290 STREAM frames of a byte, 240 ACK frames or 130 PATH_CHALLENGE
/// frames, and each costs as much as if it came alone. RFC 9000 §21.9 allows to close a connection whose frames cost more than they achieve.
pub(crate) struct Repeats {
    most: u8,
    count: u8,
    stream_bytes: u64,
}

impl Repeats {
    /// Returns the count for a packet of which no frame was read.
    pub(crate) fn new(epoch: Epoch) -> Self {
        let most = if epoch == Epoch::Application {
            MOST
        } else {
            MOST_OF_HANDSHAKE
        };
        Self { most, count: 0, stream_bytes: 0 }
    }

    /// Counts a frame.
    ///
    /// # Errors
    /// [`Error::InvalidPacket`], which closes the connection with PROTOCOL_VIOLATION, if there are too many.
    pub(crate) fn count(&mut self, frame: &Frame) -> Result<()> {
        self.count += u8::from(is_counted(frame));
        if let Frame::Stream { data, .. } = frame {
            self.stream_bytes += data.len() as u64;
        }
        if self.count > self.most {
            return Err(Error::InvalidPacket);
        }
        Ok(())
    }

    /// Returns the bytes in the STREAM frames so far.
    pub(crate) fn stream_bytes(&self) -> u64 {
        self.stream_bytes
    }
}

/// Returns whether a frame is about the connection as a whole, or tiny. Others name a stream, and there are as many as the
/// streams that have news, or contain data of the application. PADDING is one frame, however long.
fn is_counted(frame: &Frame) -> bool {
    match frame {
        Frame::Stream { data, .. } => data.len() < TINY && !data.fin(),
        Frame::Padding { .. } |
        Frame::ResetStream { .. } |
        Frame::StopSending { .. } |
        Frame::MaxStreamData { .. } |
        Frame::StreamDataBlocked { .. } |
        Frame::Datagram { .. } => false,
        _ => true,
    }
}
