//! Tokens of NEW_TOKEN frames: given to clients, and taken from those that return (RFC 9000 §8.1.3).

use std::time::Duration;

use sluicegate_base::address::{UnvalidatedAddress, ValidatedAddress};
use sluicegate_base::observe::metrics::Label;
use sluicegate_dataplane::ListenerId;

use super::Endpoint;
use crate::application::Application;
use crate::token::TokenKind;

impl<A: Application> Endpoint<A> {
    /// Returns the address that the token of an Initial proves, and uses it up: its sender is spared the Retry, and requests in early
    /// data may count on the address. Any other token counts as none, whatever is wrong with it.
    ///
    /// The limits of connections, and of three times what came from an address (RFC 9000 §8.1), hold all the same: who had the address
    /// when the token was made need not have it now, and may have collected many tokens.
    pub(super) fn open_token(
        &mut self,
        listener: ListenerId,
        source: UnvalidatedAddress,
        token: &[u8],
        unix: Duration,
    ) -> Option<ValidatedAddress> {
        let listener = self.settings.listeners.get(&listener)?;
        if TokenKind::of(token) != Some(TokenKind::NewToken) || !self.new_tokens.is_on() {
            return None;
        }
        let opened = self.new_tokens.open(token, source, &listener.name, unix);
        match opened {
            Ok(_) => self.counters.new_tokens_accepted += 1,
            Err(reason) => {
                self.counters.new_tokens_refused[reason] += 1;
                tracing::debug!(reason = reason.name(), "token of a NEW_TOKEN frame refused");
            }
        }
        opened.ok()
    }

    /// Opens the token of a connection whose requests in early data wait for a proof of the client's address. Those from the address of
    /// a trusted proxy wait for the handshake: they could name any client.
    pub(super) fn prove_by_token(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let Some(token) = connection.take_token() else {
            return;
        };
        let (id, source) = (connection.listener, connection.address);
        if self.is_proxy(id, source.ip()) {
            return;
        }
        let proved = self.open_token(id, source, &token, self.unix);
        if let Some(client) = proved
            && let Some(connection) = self.connections.get_mut(slot)
            && let Some((local, _)) = connection.active_path()
        {
            connection.prove_by_token(client, local);
        }
    }

    /// Gives a client a token for its validated address, unless it has got one for that address.
    pub(super) fn give_token(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        if self.new_tokens.is_on()
            && let Some(listener) = self.settings.listeners.get(&connection.listener)
            && let Some(address) = connection.address_without_token()
        {
            let token = self.new_tokens.seal(address, &listener.name, self.unix);
            let sent = connection.send_token(&token, address.ip());
            self.counters.new_tokens_sent += u64::from(sent);
        }
    }
}
