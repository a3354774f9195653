//! Bound of what the streams of a connection hold for a client that acknowledges it late, or never.
//!
//! The congestion window bounds what is in flight. It does not bound what the client has received behind a byte that it never
//! acknowledges: all of that is kept, too.

/// Bytes that responses write between two looks at the streams.
const LOOK: u64 = 256 << 10;

/// Last look at what the streams of a connection hold.
#[derive(Debug, Default)]
pub(super) struct UnackedLook {
    /// Bytes that responses had written.
    written: u64,
    /// The streams held too much.
    is_full: bool,
}

impl UnackedLook {
    /// Returns whether responses have to wait for acknowledgements, since the streams hold more than `most` bytes. `written` is what
    /// responses have written so far.
    pub(super) fn is_full(&mut self, conn: &quiche::Connection, written: u64, most: u64) -> bool {
        if self.is_full || written.saturating_sub(self.written) >= LOOK {
            self.written = written;
            self.is_full = conn.unacked_bytes() > most;
        }
        self.is_full
    }
}
