//! Events of the network, brought to the connections that they concern.

use std::net::SocketAddr;
use std::time::Instant;

use sluicegate_base::address::UnvalidatedAddress;
use sluicegate_dataplane::ListenerId;

use super::super::connection::Connection;
use super::Endpoint;
use crate::application::Application;

impl<A: Application> Endpoint<A> {
    /// Returns name and address of a listener; `None` if the configuration does not have it any more.
    pub fn listener(&self, listener: ListenerId) -> Option<(&str, SocketAddr)> {
        let listener = self.settings.listeners.get(&listener)?;
        Some((&listener.name, listener.local))
    }

    /// Takes the news that the host could not send a datagram of `size` bytes to a peer: its connections send smaller ones
    /// from now on, and look for the largest that passes.
    pub fn on_too_big(&mut self, listener: ListenerId, peer: SocketAddr, size: usize) {
        self.each_of_peer(listener, peer, |connection| {
            connection.on_too_big(peer, size);
            true
        });
    }

    /// Takes the report of a router that a datagram of `size` bytes to a peer was too big; `quote` has the first bytes of its
    /// payload. A connection that can have sent it repeats its search for the largest that passes.
    pub fn on_too_big_report(
        &mut self,
        listener: ListenerId,
        peer: SocketAddr,
        size: usize,
        quote: &[u8],
        now: Instant,
    ) {
        self.each_of_peer(listener, peer, |connection| {
            connection.on_too_big_report(peer, size, quote, now)
        });
    }

    /// Passes a listener's connections with a peer to `act`, which returns whether the connection may have something to send.
    fn each_of_peer(
        &mut self,
        listener: ListenerId,
        peer: SocketAddr,
        mut act: impl FnMut(&mut Connection<A>) -> bool,
    ) {
        let peer = UnvalidatedAddress::from(peer);
        let slots: Vec<usize> = self.connections.of_peer(peer).collect();
        for slot in slots {
            if let Some(connection) = self.connections.get_mut(slot)
                && connection.listener == listener
                && act(connection)
            {
                self.connections.queue_emit(slot);
            }
        }
    }
}
