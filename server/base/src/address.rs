//! Addresses of clients: the source of a datagram, which anybody can forge, and the address that policy believes.
//!
//! RFC 9000 §8, §9.3 and §21.5.6: a server that decides by an address first makes sure that its client receives what is sent there.
//! Access rules, rate limits, accounts, logs, hashing and the fields for upstreams take a [`ValidatedAddress`]. It is made where the
//! proof is at hand and nowhere else: a constructor for each kind of proof, whose callers `cargo test -p sluicegate-tidy` knows.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

/// Source address of a datagram. Packets may be sent there, and nothing is decided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnvalidatedAddress(SocketAddr);

impl UnvalidatedAddress {
    /// Returns the address to send to.
    pub fn socket(self) -> SocketAddr {
        self.0
    }

    /// Returns the IP address to send to.
    pub fn ip(self) -> IpAddr {
        self.0.ip()
    }
}

impl From<SocketAddr> for UnvalidatedAddress {
    fn from(source: SocketAddr) -> Self {
        UnvalidatedAddress(source)
    }
}

/// Address of a client that receives what is sent there, or that a trusted proxy or load balancer names. Its port is 0 if a proxy
/// names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValidatedAddress(SocketAddr);

impl ValidatedAddress {
    /// Returns the address of a client that has completed a handshake of TCP: it has received the server's sequence number
    /// (RFC 9293 §3.4.1).
    pub fn by_tcp_handshake(sender: SocketAddr) -> Self {
        ValidatedAddress(sender)
    }

    /// Returns the peer's address on a path of QUIC that is validated: by the handshake, a Retry or a PATH_RESPONSE (RFC 9000 §8.1,
    /// §8.2).
    pub fn by_path_validation(peer: SocketAddr) -> Self {
        ValidatedAddress(peer)
    }

    /// Returns the address that a token of a NEW_TOKEN frame was made for and has come from (RFC 9000 §8.1.3). Its client received
    /// there when the token was made.
    pub fn by_token(source: UnvalidatedAddress) -> Self {
        ValidatedAddress(source.0)
    }

    /// Returns the client that a trusted proxy or load balancer names.
    pub fn named_by(_proxy: ValidatedAddress, client: SocketAddr) -> Self {
        ValidatedAddress(client)
    }

    /// Returns an address that nobody sends from: an operator asks about it, or a benchmark makes it up.
    pub fn supposed(client: IpAddr) -> Self {
        ValidatedAddress(SocketAddr::new(client, 0))
    }

    /// Returns whether it is this address.
    pub fn is_at(self, address: SocketAddr) -> bool {
        self.0 == address
    }

    /// Returns the IP address.
    pub fn ip(self) -> IpAddr {
        self.0.ip()
    }

    /// Returns the IP address and the port.
    pub fn socket(self) -> SocketAddr {
        self.0
    }

    /// Returns the port; 0 if it is not known.
    pub fn port(self) -> u16 {
        self.0.port()
    }
}

impl fmt::Display for ValidatedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Address of a client that may be validated later. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct AwaitedAddress(Arc<OnceLock<ValidatedAddress>>);

impl AwaitedAddress {
    /// Takes the address once it is validated; the first one stays.
    pub fn set(&self, address: ValidatedAddress) {
        let _ = self.0.set(address);
    }

    /// Returns the address; `None` before it is validated.
    pub fn get(&self) -> Option<ValidatedAddress> {
        self.0.get().copied()
    }
}

/// Network path on which a client has proved that it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientPath {
    /// Address of the client.
    pub client: ValidatedAddress,
    /// Address of the server.
    pub local: SocketAddr,
}

/// Tests make addresses up.
#[cfg(any(test, feature = "test-fixtures"))]
mod made_up {
    use std::net::{AddrParseError, IpAddr, SocketAddr};
    use std::str::FromStr;

    use super::{UnvalidatedAddress, ValidatedAddress};

    impl From<SocketAddr> for ValidatedAddress {
        fn from(address: SocketAddr) -> Self {
            ValidatedAddress(address)
        }
    }

    impl From<([u8; 4], u16)> for ValidatedAddress {
        fn from(address: ([u8; 4], u16)) -> Self {
            ValidatedAddress(address.into())
        }
    }

    impl From<IpAddr> for ValidatedAddress {
        fn from(address: IpAddr) -> Self {
            ValidatedAddress::supposed(address)
        }
    }

    impl From<IpAddr> for UnvalidatedAddress {
        fn from(address: IpAddr) -> Self {
            UnvalidatedAddress(SocketAddr::new(address, 0))
        }
    }

    /// Reads an address with a port or without.
    fn parse(text: &str) -> Result<SocketAddr, AddrParseError> {
        let ip = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
        ip.or_else(|_| text.parse())
    }

    impl FromStr for ValidatedAddress {
        type Err = AddrParseError;

        fn from_str(text: &str) -> Result<Self, AddrParseError> {
            parse(text).map(ValidatedAddress)
        }
    }

    impl FromStr for UnvalidatedAddress {
        type Err = AddrParseError;

        fn from_str(text: &str) -> Result<Self, AddrParseError> {
            parse(text).map(UnvalidatedAddress)
        }
    }
}
