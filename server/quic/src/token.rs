//! Tokens by which a client proves its address: those of Retry packets (RFC 9000 §8.1.2), and those of NEW_TOKEN frames, for a later
//! connection (§8.1.3).
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | kind: 1, Retry; 2, NEW_TOKEN |
//! | 1 | which root secret, derived from it |
//! | 24 | random nonce |
//! | 16 | authentication tag, over the two bytes in front too |
//! | 47 and our ID, Retry | sealed: expiry in ms since 1970 (8), peer address as IPv6 (16) and port (2), our connection ID from the Retry packet, length of the original destination ID (1) and that ID, padded to 20 |
//! | 40, NEW_TOKEN | sealed: expiry in ms since 1970 (8), peer address as IPv6 (16), the listener's name (16, of its SHA-256) |
//!
//! The seal is XChaCha20-Poly1305, whose random nonces may be drawn for any number of tokens. Each kind has keys of its own, which derive
//! from the root secrets and change with them. Keys that change by themselves, like those of session tickets, would protect nothing: a
//! token holds no key or identity, and whoever has a root secret makes Retry tokens, too.
//!
//! Nothing is remembered of a Retry token: whoever can send from its address may present it again until it expires, so the lifetime
//! bounds a replay, which opens another handshake for the same address, port and connection ID.
//!
//! A NEW_TOKEN token is valid for much longer, and an observer sees it in the client's Initial packet. So it is good once, for all
//! workers of a process ([`UsedTokens`]); with instances that share root secrets, once at each. It saves the client a Retry, and requests
//! in early data the wait for the handshake; it is opened only where one of these is due. It lifts no limit: not that of three times what
//! came from the address, which somebody else may have by now, nor one of connections or of what they hold, and access rules admit no
//! request by it. Whatever is wrong with it, it counts as none, and the client is served.

mod new_token;
mod retry;
mod seal;
mod used;

use std::net::IpAddr;
use std::time::Duration;

pub use new_token::{NewTokenRefusal, NewTokens};
pub use retry::{OriginalDcid, RetryTokens, TokenError};
pub use used::UsedTokens;

/// Largest difference of the clocks of instances that share secrets.
const CLOCK_SKEW: Duration = Duration::from_secs(60);

/// Kind of a token, its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Token of a Retry packet.
    Retry = 1,
    /// Token of a NEW_TOKEN frame.
    NewToken = 2,
}

impl TokenKind {
    /// Returns what a token says it is, unverified; `None` if it is no token of this server, which counts as none (RFC 9000 §8.1.3).
    pub fn of(token: &[u8]) -> Option<TokenKind> {
        [TokenKind::Retry, TokenKind::NewToken]
            .into_iter()
            .find(|kind| token.first() == Some(&(*kind as u8)))
    }
}

/// Returns whether a token that ends at `expiry`, in ms since 1970, is valid at `now`: it is not too old, nor from so far in the future
/// that the clock must have been set back.
fn is_current(expiry: [u8; 8], lifetime: Duration, now: Duration) -> bool {
    let expiry = Duration::from_millis(u64::from_be_bytes(expiry));
    let latest = now.saturating_add(lifetime).saturating_add(CLOCK_SKEW);
    (now..=latest).contains(&expiry)
}

/// Returns the end of a token that is made at `now`, in ms since 1970.
fn expiry(lifetime: Duration, now: Duration) -> [u8; 8] {
    let end = now.saturating_add(lifetime).as_millis();
    u64::try_from(end).unwrap_or(u64::MAX).to_be_bytes()
}

/// Returns an address as IPv6: IPv4 and its form within IPv6 are the same peer.
fn address(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests;
