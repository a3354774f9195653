//! Addresses of a client's datagrams.

use std::net::{IpAddr, SocketAddr};

/// Offset basis and prime of FNV-1a with 64 bits.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// Address of a client, and that to which it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Client.
    pub client: SocketAddr,
    /// Address of the balancer.
    pub local: SocketAddr,
}

impl Tuple {
    /// Returns a hash that is the same in every balancer, so that several of them choose the same server for a client.
    pub(crate) fn hash(&self) -> u64 {
        let client = with_address(FNV_BASIS, self.client);
        mixed(with_address(client, self.local))
    }
}

/// Returns the hash of a name, which is the same in every balancer.
pub(crate) fn hash_of_name(name: &str) -> u64 {
    mixed(with_bytes(FNV_BASIS, name.as_bytes()))
}

/// Returns the hash of a connection ID that a client has chosen.
pub(crate) fn hash_of_id(id: &[u8]) -> u64 {
    mixed(with_bytes(FNV_BASIS, id))
}

/// Spreads a difference in any bit over all bits (the finalizer of SplitMix64).
pub(crate) fn mixed(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

fn with_address(hash: u64, address: SocketAddr) -> u64 {
    let hash = match address.ip() {
        IpAddr::V4(ip) => with_bytes(hash, &ip.octets()),
        IpAddr::V6(ip) => with_bytes(hash, &ip.octets()),
    };
    with_bytes(hash, &address.port().to_be_bytes())
}

fn with_bytes(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}
