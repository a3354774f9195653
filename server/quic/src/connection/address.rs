//! The client's address: where the connection has moved to, and the last address that is validated.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use sluicegate_base::address::{AwaitedAddress, ClientPath, UnvalidatedAddress, ValidatedAddress};

use super::Connection;
use crate::application::Application;

/// Time for which an address that the client has left needs no other validation (RFC 9000 §9.3: "seen recently").
const RECENT: Duration = Duration::from_secs(10);

/// What is known of the address of a connection's client. It is never one that somebody has merely claimed: until a new address is
/// validated, the last one counts (RFC 9000 §9.3).
#[derive(Debug, Default)]
pub(super) struct Whereabouts {
    /// Last validated path that was active.
    pub(super) validated: Option<ClientPath>,
    /// Path that a token proves, for requests in early data.
    pub(super) by_token: Option<ClientPath>,
    /// Token of the client's first Initial, until somebody opens it.
    pub(super) token: Option<Box<[u8]>>,
    /// Receiver of the address once it is validated.
    pub(super) awaited: Option<AwaitedAddress>,
    /// Time at which the addresses that the client has left count no more.
    pub(super) forgotten_at: Option<Instant>,
}

impl<A: Application> Connection<A> {
    /// Notes the path that the client uses now if it is validated; called after each datagram.
    pub(crate) fn note_path(&mut self) {
        // Most connections never have another path than the one that their handshake validates.
        if self.whereabouts.validated.is_some() && !self.quic.has_other_paths() {
            return;
        }
        let Some((local, peer)) = self.quic.validated_path() else {
            return;
        };
        let path = ClientPath { client: ValidatedAddress::by_path_validation(peer), local };
        if self.whereabouts.validated.replace(path) != Some(path)
            && let Some(session) = &mut self.session
        {
            session.move_to(path);
        }
    }

    /// Has addresses validated again that the client left some time ago; called before each datagram.
    pub(super) fn forget_left_paths(&mut self, now: Instant) {
        if self.whereabouts.forgotten_at.is_some_and(|at| at <= now) {
            self.whereabouts.forgotten_at = None;
            self.quic.forget_left_paths();
        }
    }

    /// Takes the events of its paths.
    pub(super) fn take_path_events(&mut self, now: Instant) {
        let mut any = false;
        while self.quic.path_event_next().is_some() {
            any = true;
        }
        self.may_have_moved |= any;
        if any && self.quic.has_other_paths() {
            self.whereabouts.forgotten_at.get_or_insert(now + RECENT);
        }
    }

    /// Returns the addresses of the active path, this side's first.
    pub(crate) fn active_path(&self) -> Option<(SocketAddr, SocketAddr)> {
        let path = self.quic.path_stats().find(|path| path.active)?;
        Some((path.local_addr, path.peer_addr))
    }

    /// Returns the path by which requests are decided; `None` before the client's address is validated.
    pub(super) fn client_path(&self) -> Option<ClientPath> {
        self.whereabouts.validated.or(self.whereabouts.by_token)
    }

    /// Keeps the token of the client's first Initial, which may prove the address for early data.
    pub(crate) fn keep_token(&mut self, token: &[u8]) {
        self.whereabouts.token = (!token.is_empty()).then(|| token.into());
    }

    /// Tells what waits for it the client's address once that is validated.
    pub(crate) fn await_address(&mut self, awaited: AwaitedAddress) {
        self.whereabouts.awaited = Some(awaited);
    }

    /// Returns the token of its Initial if requests in early data wait for a proof of the client's address; once.
    pub(crate) fn take_token(&mut self) -> Option<Box<[u8]>> {
        if self.client_path().is_some() {
            self.whereabouts.token = None;
        }
        let waits = self.whereabouts.token.is_some() && self.quic.is_in_early_data();
        waits.then(|| self.whereabouts.token.take()).flatten()
    }

    /// Takes the proof of a token that the client receives at the address that it sends from.
    pub(crate) fn prove_by_token(&mut self, client: ValidatedAddress, local: SocketAddr) {
        self.whereabouts.token = None;
        self.whereabouts.by_token = Some(ClientPath { client, local });
    }

    /// Returns the client's validated address where its connection counts as nobody's yet.
    pub(crate) fn validated_newcomer(&mut self) -> Option<ValidatedAddress> {
        if !self.holder.is_some_and(|holder| holder.is_unproved()) {
            return None;
        }
        let client = self.whereabouts.validated?.client;
        if let Some(awaited) = self.whereabouts.awaited.take() {
            awaited.set(client);
        }
        Some(client)
    }

    /// Closes a connection beyond the client's share (CONNECTION_REFUSED).
    pub(crate) fn refuse(&mut self) {
        let code = quiche::WireErrorCode::ConnectionRefused as u64;
        let _ = self.quic.close(false, code, b"");
    }

    /// Returns the peer's address on the active path where it may be another since the last call, or validated.
    pub(crate) fn take_move(&mut self) -> Option<UnvalidatedAddress> {
        let moved = std::mem::take(&mut self.may_have_moved);
        let peer = moved.then(|| self.quic.active_peer()).flatten();
        peer.map(UnvalidatedAddress::from)
    }

    /// Returns the client's validated address and the lowest round-trip time to it so far, if it is there now.
    pub fn min_rtt(&self) -> Option<(ValidatedAddress, Duration)> {
        let client = self.whereabouts.validated?.client;
        let path = self.quic.path_stats().find(|path| path.active)?;
        client.is_at(path.peer_addr).then_some((client, path.min_rtt?))
    }

    /// Returns the client's validated address if the handshake is complete and the last token was for another one.
    pub(crate) fn address_without_token(&self) -> Option<ValidatedAddress> {
        let client = self.whereabouts.validated?.client;
        (self.quic.is_established() && self.token_for != Some(client.ip())).then_some(client)
    }

    /// Sends the client a token for `address` in a NEW_TOKEN frame. Returns whether it will be sent.
    pub(crate) fn send_token(&mut self, token: &[u8], address: IpAddr) -> bool {
        self.token_for = Some(address);
        self.quic.send_new_token(token).is_ok()
    }
}
