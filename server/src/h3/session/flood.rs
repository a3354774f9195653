//! Clients that send far more than heads and bodies.

use super::Session;
use crate::http::overhead;

/// Bytes of streams that a client may send without heads and bodies.
pub(in crate::h3) const FREE_OVERHEAD: u64 = 8 << 20;

impl Session {
    /// Returns whether the client has sent far more on its streams than heads and bodies: frames that are empty or unknown cost the
    /// worker as much as others, and achieve nothing.
    pub(super) fn is_flooded(&self, conn: &quiche::Connection, stream_window: u64) -> bool {
        // Nobody read the last window of a stream that was reset or stopped.
        let ended = self.wasted + self.late_resets + self.stopped;
        let unread = ended.saturating_mul(stream_window);
        let payload = self.section_bytes + self.body_bytes;
        let allowed = overhead::allowed(payload, FREE_OVERHEAD.saturating_add(unread));
        conn.read_bytes() > allowed
    }
}
