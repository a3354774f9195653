//! Bound on the frames of a packet that are about its connection as a whole, or hardly about anything.
//!
//! The build script places this file at `repeats.rs` of the patched source.

use crate::frame::Frame;
use crate::packet::Epoch;
use crate::Error;
use crate::Result;

/// Frames about the connection as a whole that a packet with application data may contain. The last frame of a kind says
/// all, but for connection IDs, of which each side has at most 16. STREAM frames count if they are [`TINY`].
const MOST: u16 = 32;

/// MAX_STREAMS frames that count as much as one other frame: quic-go sends one for each stream that has ended, 32 and more in a packet.
const MAX_STREAMS_FRAMES: u16 = 4;

/// Bytes of a STREAM frame that is smaller than any frame of HTTP/3 with a payload.
const TINY: usize = 3;

/// The same for packets of the handshake. Chrome splits its first message at random, into up to 11 CRYPTO frames of a packet
/// with up to 10 PING frames between them.
const MOST_OF_HANDSHAKE: u16 = 64;

/// Count of the frames of one packet that are about its connection as a whole, or hardly about anything.
///
/// A packet of 1,200 bytes has room for 1,200 PING frames, 290 STREAM frames of a byte, 240 ACK frames or 130 PATH_CHALLENGE
/// frames, and each costs as much as if it came alone. RFC 9000 §21.9 allows to close a connection whose frames cost more than they achieve.
pub(crate) struct Repeats {
    /// The most, and those so far, in units of a MAX_STREAMS frame.
    most: u16,
    count: u16,
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
        Self { most: most * MAX_STREAMS_FRAMES, count: 0, stream_bytes: 0 }
    }

    /// Counts a frame.
    ///
    /// # Errors
    /// [`Error::InvalidPacket`], which closes the connection with PROTOCOL_VIOLATION, if there are too many.
    pub(crate) fn count(&mut self, frame: &Frame) -> Result<()> {
        self.count += match frame {
            Frame::MaxStreamsBidi { .. } | Frame::MaxStreamsUni { .. } => 1,
            _ if is_counted(frame) => MAX_STREAMS_FRAMES,
            _ => 0,
        };
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
