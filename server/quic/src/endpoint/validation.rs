//! Validation of clients' addresses: from then on connections count as their clients'.

use std::net::IpAddr;

use sluicegate_dataplane::ListenerId;

use super::Endpoint;
use crate::application::Application;
use crate::counters::RefusalReason;
use crate::holders::Holder;

impl<A: Application> Endpoint<A> {
    /// Returns whether an address is a trusted proxy's of the listener.
    pub(super) fn is_proxy(&self, listener: ListenerId, address: IpAddr) -> bool {
        let listener = self.settings.listeners.get(&listener);
        listener.is_some_and(|listener| A::is_proxy(&listener.application, address))
    }

    /// Counts a connection as its client's once the client's address is validated. It is closed if the client has its share already.
    pub(super) fn note_validation(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let Some(client) = connection.validated_newcomer() else {
            return;
        };
        let listener = connection.listener;
        let holder = Holder::new(client, self.is_proxy(listener, client.ip()));
        let may_enter = self.has_share(holder);
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let entering = may_enter.then_some(holder);
        if let Some(unproved) = std::mem::replace(&mut connection.holder, entering) {
            self.holders.leave(unproved);
        }
        if may_enter {
            self.holders.enter(holder);
        } else {
            connection.refuse();
            self.counters.on_refusal(RefusalReason::Client);
        }
    }

    /// Returns whether a client may have another connection.
    pub(super) fn has_share(&self, holder: Holder) -> bool {
        let most = self.settings.limits.connections_per_client;
        holder.is_proxy() || self.holders.open(holder) < most
    }
}
