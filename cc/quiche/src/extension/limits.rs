//! What keeps a connection from sending.
//!
//! The build script places this file at `extension/limits.rs` of the patched source.

use crate::recovery::RecoveryOps;
use crate::BufFactory;
use crate::Connection;

/// Bytes of credit into which no frame of an application fits: HTTP/3 writes no header without a byte behind it.
const LEAST: u64 = 16;

/// What keeps the data of all streams from leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendLimit {
    /// As many bytes were sent as an unvalidated address may get (RFC 9000 §8.1).
    Amplification,
    /// The congestion window has no room for a datagram (RFC 9002 §7).
    CongestionWindow,
    /// The peer's flow control of the connection allows no more (RFC 9000 §4.1).
    ConnectionFlowControl,
}

impl<F: BufFactory> Connection<F> {
    /// Returns what keeps new data from leaving on the active path; `None` if only a stream's own flow control can, or pacing, which is
    /// the caller's. It says why [`Connection::send`] returned `Done` while there was data.
    pub fn send_limit(&self) -> Option<SendLimit> {
        let path = self.paths.get_active().ok()?;
        if self.is_server && !path.verified_peer_address && path.unverified_room() == 0 {
            return Some(SendLimit::Amplification);
        }
        if path.recovery.cwnd_available() == 0 {
            return Some(SendLimit::CongestionWindow);
        }
        // What was written and not sent is within the peer's limit.
        let left = self.max_tx_data.saturating_sub(self.tx_data);
        let is_shut = left < LEAST && !self.streams.has_flushable();
        is_shut.then_some(SendLimit::ConnectionFlowControl)
    }
}
