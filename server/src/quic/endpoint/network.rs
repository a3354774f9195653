//! Events of the network, brought to the connections that they concern.

use std::net::SocketAddr;

use sluicegate_dataplane::ListenerId;

use super::Endpoint;

impl Endpoint {
    /// Takes the news that the host could not send a datagram of `size` bytes to a peer: its connections send smaller ones
    /// from now on, and look for the largest that passes.
    pub fn on_too_big(&mut self, listener: ListenerId, peer: SocketAddr, size: usize) {
        let of_peer = self.peers.range((peer, 0)..=(peer, usize::MAX));
        let slots: Vec<usize> = of_peer.map(|&(_, slot)| slot).collect();
        for slot in slots {
            if let Some(connection) = self.connections[slot].as_mut()
                && connection.listener == listener
            {
                connection.on_too_big(peer, size);
                self.queue_emit(slot);
            }
        }
    }
}
