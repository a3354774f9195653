//! What blocks a connection's data.
//!
//! The build script places this file at `extension/limits.rs` of the patched source.

use crate::recovery::RecoveryOps;
use crate::BufFactory;
use crate::Connection;

/// Credit into which no frame of HTTP/3 fits, bytes: there is no header without a byte behind it. A head needs more.
pub(super) const MIN_CREDIT: u64 = 16;

/// Room into which no packet with data fits, bytes.
const MIN_ROOM: usize = 100;

/// What blocks the data of all streams.
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
    /// Returns what blocks new data on the active path; `None` if only a stream's own flow control can, or pacing, which is the
    /// caller's.
    pub fn send_limit(&self) -> Option<SendLimit> {
        let path = self.paths.get_active().ok()?;
        if self.is_server && !path.verified_peer_address && path.unverified_room() < MIN_ROOM {
            return Some(SendLimit::Amplification);
        }
        if path.recovery.cwnd_available() == 0 {
            return Some(SendLimit::CongestionWindow);
        }
        // What was written and not sent is within the peer's limit.
        let is_blocked = self.is_credit_used() && !self.streams.has_flushable();
        is_blocked.then_some(SendLimit::ConnectionFlowControl)
    }

    /// Returns whether the peer's flow control of the connection lets streams take no more data.
    pub fn is_credit_used(&self) -> bool {
        self.connection_allowance() < MIN_CREDIT
    }

    /// Returns whether the congestion window and pacing have room for more in a round trip than is in flight or waits to be sent. If
    /// streams have more data all the same, the peer's flow control limits the rate, and pacing only spreads what that allows.
    pub fn is_window_spare(&self) -> bool {
        let Ok(path) = self.paths.get_active() else {
            return false;
        };
        let is_refused = (self.tx_cap as u64) < MIN_CREDIT && !self.is_credit_used();
        let recovery = &path.recovery;
        let micros = u64::try_from(recovery.rtt().as_micros()).unwrap_or(u64::MAX);
        let paced = recovery.pacing_rate().saturating_mul(micros) / 1_000_000;
        let most = paced.min(recovery.cwnd() as u64);
        !is_refused && ((recovery.bytes_in_flight() + self.unsent()) as u64) < most
    }
}
