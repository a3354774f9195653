//! The end: no further connection, no further request, then a last word to every client.

use std::time::Instant;

use quiche::h3::WireErrorCode;

use super::Endpoint;

impl Endpoint {
    /// Whether new connections are refused.
    pub fn is_draining(&self) -> bool {
        self.draining.is_some()
    }

    /// Refuses new connections and tells every client that no further request will be taken.
    pub fn drain(&mut self, now: Instant) {
        self.draining.get_or_insert(now);
        for key in 0..self.connections.len() {
            if let Some(connection) = self.connections[key].as_mut() {
                connection.drain();
                self.queue(key);
            }
        }
    }

    /// While draining: closes connections whose requests have all been answered for a while, or every one if `all`.
    pub fn close_idle(&mut self, all: bool, now: Instant) {
        let Some(since) = self.draining else {
            return;
        };
        for key in 0..self.connections.len() {
            if let Some(connection) = self.connections[key].as_mut()
                && connection.quic.local_error().is_none()
                && (all || connection.is_finished(since, now))
            {
                let code = WireErrorCode::NoError as u64;
                let _ = connection.quic.close(true, code, b"");
                self.queue(key);
            }
        }
    }

    /// While draining: whether every connection has said its last word or heard the client's.
    pub fn is_drained(&self) -> bool {
        self.connections.iter().flatten().all(|c| {
            c.quic.is_closed()
                || c.quic.is_draining()
                || (c.quic.local_error().is_some() && !c.ready)
        })
    }
}
