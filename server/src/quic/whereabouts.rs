//! What is known of the address of a connection's client.

use std::time::Instant;

use crate::address::AwaitedAddress;
use crate::address::ClientPath;

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
    /// What waits for the first validation.
    pub(super) awaited: Option<AwaitedAddress>,
    /// Time at which the addresses that the client has left count no more.
    pub(super) forgotten_at: Option<Instant>,
}
