//! Datagrams that did not fit the path.

use std::net::SocketAddr;
use std::time::Instant;

use super::super::path_size::may_quote;
use super::Connection;
use crate::application::Application;

impl<A: Application> Connection<A> {
    /// Takes the news that the host cannot send datagrams of `size` bytes to `peer`.
    pub(crate) fn on_too_big(&mut self, peer: SocketAddr, size: usize) {
        self.quic.on_too_big(peer, size);
    }

    /// Takes the report of a router that a datagram of `size` bytes to `peer` was too big. `quote`: first bytes of its payload.
    ///
    /// A report about a datagram that the connection can have sent is a hint (RFC 9000 §14.2.1, RFC 8899 §4.6): datagrams are
    /// small until a probe of the size before has passed or failed, which takes a round trip if the report was forged.
    /// Returns whether it is heeded.
    pub(crate) fn on_too_big_report(
        &mut self,
        peer: SocketAddr,
        size: usize,
        quote: &[u8],
        now: Instant,
    ) -> bool {
        let sizes = quiche::MIN_CLIENT_INITIAL_LEN + 1..=self.quic.max_send_udp_payload_size();
        let heeded = self.quic.active_peer() == Some(peer)
            && self.quic.is_pmtu_raised()
            && sizes.contains(&size)
            && may_quote(quote, &self.quic.destination_id())
            && self.path_size.on_report(now);
        if heeded {
            self.quic.doubt_pmtu();
        }
        heeded
    }
}
