//! Addresses of a client's datagrams.

use std::net::{IpAddr, SocketAddr};

use sluicegate_base::hash::Fnv1a;

/// Address of a client, and that to which it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tuple {
    /// Client.
    pub(crate) client: SocketAddr,
    /// Address of the balancer.
    pub(crate) local: SocketAddr,
}

impl Tuple {
    /// Returns a hash that is the same in every balancer, so that several of them choose the same server for a client.
    pub(crate) fn hash(&self) -> u64 {
        with_address(with_address(Fnv1a::EMPTY, self.client), self.local).finish()
    }
}

fn with_address(hash: Fnv1a, address: SocketAddr) -> Fnv1a {
    let hash = match address.ip() {
        IpAddr::V4(ip) => hash.with(&ip.octets()),
        IpAddr::V6(ip) => hash.with(&ip.octets()),
    };
    hash.with(&address.port().to_be_bytes())
}
