//! Tokens of NEW_TOKEN frames: given to clients, and taken from those that return (RFC 9000 §8.1.3).

use std::time::Duration;

use sluicegate_dataplane::RxMeta;

use super::Endpoint;
use crate::observe::metrics::Label;
use crate::quic::token::Kind;

impl Endpoint {
    /// Returns whether the token of an Initial spares its sender the Retry, and uses it up. Any other counts as none, whatever is
    /// wrong with it.
    ///
    /// The limit of three times what came from an address (RFC 9000 §8.1) holds all the same: who had the address when the token was
    /// made need not have it now, and may have collected many tokens.
    pub(super) fn is_spared_retry(&mut self, meta: &RxMeta, token: &[u8], unix: Duration) -> bool {
        let Some(listener) = self.settings.listeners.get(&meta.listener) else {
            return false;
        };
        if Kind::of(token) != Some(Kind::NewToken) || !self.new_tokens.is_on() {
            return false;
        }
        let opened = self
            .new_tokens
            .open(token, meta.peer.ip(), &listener.name, unix);
        match opened {
            Ok(()) => self.counters.new_tokens_accepted += 1,
            Err(reason) => {
                self.counters.new_tokens_refused[reason] += 1;
                tracing::debug!(reason = reason.name(), "token of a NEW_TOKEN frame refused");
            }
        }
        opened.is_ok()
    }

    /// Gives a client a token for its validated address, unless it has got one for that address.
    pub(super) fn give_token(&mut self, slot: usize) {
        let Some(connection) = self.connections[slot].as_mut() else {
            return;
        };
        if self.new_tokens.is_on()
            && let Some(listener) = self.settings.listeners.get(&connection.listener)
            && let Some(address) = connection.address_without_token()
        {
            let token = self.new_tokens.seal(address, &listener.name, self.unix);
            let sent = connection.send_token(&token, address);
            self.counters.new_tokens_sent += u64::from(sent);
        }
    }
}
