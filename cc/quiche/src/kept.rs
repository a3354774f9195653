//! Frames of sent packets, kept until the packets are acknowledged or lost.
//!
//! The build script places this file at `recovery/kept.rs` of the patched source.

use std::fmt::{Debug, Formatter, Result};

use crate::frame::Frame;

/// A sent frame. Nearly all are STREAM frames, which take a quarter of the largest frame's room.
#[derive(Clone)]
pub enum KeptFrame {
    /// STREAM frame, without its data.
    Stream {
        stream_id: u64,
        offset: u64,
        length: usize,
        fin: bool,
    },
    /// Any other frame.
    Other(Box<Frame>),
}

impl KeptFrame {
    /// Returns whether it is a DATAGRAM frame.
    pub fn is_datagram(&self) -> bool {
        matches!(self, KeptFrame::Other(frame) if matches!(**frame, Frame::DatagramHeader { .. }))
    }

    /// Returns whether it is a NEW_TOKEN frame.
    pub fn is_new_token(&self) -> bool {
        matches!(self, KeptFrame::Other(frame) if matches!(**frame, Frame::NewToken { .. }))
    }
}

impl Debug for KeptFrame {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Frame::from(self.clone()).fmt(f)
    }
}

impl From<Frame> for KeptFrame {
    fn from(frame: Frame) -> Self {
        match frame {
            Frame::StreamHeader { stream_id, offset, length, fin } =>
                KeptFrame::Stream { stream_id, offset, length, fin },
            other => KeptFrame::Other(Box::new(other)),
        }
    }
}

impl From<KeptFrame> for Frame {
    fn from(kept: KeptFrame) -> Self {
        match kept {
            KeptFrame::Stream { stream_id, offset, length, fin } =>
                Frame::StreamHeader { stream_id, offset, length, fin },
            KeptFrame::Other(frame) => *frame,
        }
    }
}

// At most a quarter of a frame, as said above.
const _: () = assert!(4 * size_of::<KeptFrame>() <= size_of::<Frame>());
