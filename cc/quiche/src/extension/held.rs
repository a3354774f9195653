//! Bytes that the streams of a connection hold.
//!
//! The build script places this file at `extension/held.rs` of the patched source.

use crate::stream::Stream;
use crate::BufFactory;
use crate::Connection;

impl<F: BufFactory> Connection<F> {
    /// Returns how many bytes the streams hold for the peer: what was written, from the first byte on that it has not acknowledged.
    /// What it has acknowledged behind that is still held. Takes time for each stream.
    pub fn unacked_bytes(&self) -> u64 {
        let held = |stream: &Stream<F>| stream.send.off_back().saturating_sub(stream.send.ack_off());
        self.streams.iter().map(|(_, stream)| held(stream)).sum()
    }

    /// Returns how many bytes of streams were received and not read, gaps included. Takes time for each stream.
    pub fn unread_bytes(&self) -> u64 {
        let held = |stream: &Stream<F>| stream.recv.max_off().saturating_sub(stream.recv.off_front());
        self.streams.iter().map(|(_, stream)| held(stream)).sum()
    }

    /// Returns how many bytes of streams were read so far. What nobody reads of a stream that was reset or stopped counts, too.
    pub fn read_bytes(&self) -> u64 {
        self.flow_control.max_data_next() - self.flow_control.window()
    }
}
