//! The client's address: where the connection has moved to, and whether the address is validated.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::Connection;

impl Connection {
    /// Returns the peer's address on the active path where it may be another since the last call, or validated.
    pub(in crate::quic) fn take_move(&mut self) -> Option<SocketAddr> {
        let moved = std::mem::take(&mut self.may_have_moved);
        moved.then(|| self.quic.active_peer()).flatten()
    }

    /// Returns the client's address and the lowest round-trip time to it so far.
    pub fn min_rtt(&self) -> Option<(IpAddr, Duration)> {
        let path = self.quic.path_stats().find(|path| path.active)?;
        Some((path.peer_addr.ip(), path.min_rtt?))
    }

    /// Returns the client's address if the handshake is complete, the address is validated, and the last token was for another one.
    pub(in crate::quic) fn address_without_token(&self) -> Option<IpAddr> {
        let address = self.quic.validated_peer()?.ip();
        (self.quic.is_established() && self.token_for != Some(address)).then_some(address)
    }

    /// Sends the client a token for `address` in a NEW_TOKEN frame. Returns whether it will be sent.
    pub(in crate::quic) fn send_token(&mut self, token: &[u8], address: IpAddr) -> bool {
        self.token_for = Some(address);
        self.quic.send_new_token(token).is_ok()
    }
}
