//! Which Ethernet address a worker's frames go to.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use crate::address::MacAddr;
use crate::config::PortConfig;

/// Time for which the sender of a received frame is where replies go, milliseconds.
const FRESH: u64 = 30_000;
/// Age from which a received frame renews its entry, milliseconds.
const RENEWAL: u64 = 1000;
/// Sets of the table of received frames, a power of two.
const SETS: usize = 1024;
/// Entries of a set.
const WAYS: usize = 4;
/// Stations kept that frames from beyond the link came from.
const FORWARDERS: usize = 8;

/// Hosts whose Ethernet addresses a [`Stack`](crate::Stack) resolved: an immutable copy that workers share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeighborTable(Arc<[(IpAddr, MacAddr)]>);

impl NeighborTable {
    /// Makes a table of these hosts. A driver without a [`Stack`](crate::Stack) may take them from the kernel.
    #[must_use]
    pub fn new(mut hosts: Vec<(IpAddr, MacAddr)>) -> Self {
        hosts.sort_unstable();
        Self(hosts.into())
    }

    /// Returns the number of hosts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the Ethernet address of a host of the link.
    #[must_use]
    pub fn get(&self, address: IpAddr) -> Option<MacAddr> {
        let found = self.0.binary_search_by_key(&address, |(address, _)| *address);
        found.ok().map(|place| self.0[place].1)
    }
}

/// Next hop of the frames to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// To this station.
    Known(MacAddr),
    /// To this station, from which the last frame came too long ago to be sure: the worker sends, and passes the
    /// destination to [`Stack::resolve`](crate::Stack::resolve) if there is a stack.
    Stale(MacAddr),
    /// Unknown: the worker passes the destination to [`Stack::resolve`](crate::Stack::resolve). It drops the datagram or
    /// keeps few; QUIC repeats what is lost.
    Unresolved,
    /// The destination is on no link of the port and there is no gateway.
    NoRoute,
}

/// A worker's next hops: the station that a peer's last frame came from, fixed neighbours, and what the [`Stack`] resolved.
///
/// Of these, the first that is known counts for a destination on the link:
/// 1. the fixed neighbour,
/// 2. what the stack resolved,
/// 3. the sender of the last frame from the destination.
///
/// A frame of an on-link host that comes from a router may have been forged beyond the link. It replaces no other sender,
/// and the host is resolved at once. Routers are the gateways that are known, and the last stations from which frames from
/// beyond the link came: those of a router may have another address than it answers ARP with, and without a stack no
/// gateway is resolved.
///
/// For a destination on no link:
/// 1. the sender of the last frame from it, for 30 s: a client behind a router is answered through the router that its
///    packets came by,
/// 2. the gateway, fixed or resolved,
/// 3. the sender of the last frame, however long ago.
///
/// A station of the link can claim the address of a client that is not resolved, and so receive its replies, as it could
/// by forged ARP. It cannot where the addresses are fixed: a fixed neighbour's frames count from its own station only, and
/// if all gateways of a family are fixed, frames from beyond the link count from these only.
///
/// [`Stack`]: crate::Stack
#[derive(Clone, Debug)]
pub struct NextHops {
    config: Arc<PortConfig>,
    /// Ethernet addresses of the gateways of IPv4 and of IPv6, where all of the family are fixed.
    fixed_gateways: [Option<Box<[MacAddr]>>; 2],
    resolved: NeighborTable,
    /// Ethernet addresses of all gateways that are known.
    gateway_macs: Vec<MacAddr>,
    /// The last stations that frames from beyond the link came from, and the place of the next.
    forwarders: ([MacAddr; FORWARDERS], usize),
    /// Random key, so that nobody outside knows which peers share a set.
    key: [u64; 2],
    recent: Box<[[Recent; WAYS]]>,
}

/// Sender of a peer's last frame.
#[derive(Clone, Copy, Debug)]
struct Recent {
    /// The peer, IPv4 mapped into IPv6; unspecified where the entry is free.
    peer: Ipv6Addr,
    mac: MacAddr,
    at: u64,
}

impl Recent {
    const FREE: Self = Self { peer: Ipv6Addr::UNSPECIFIED, mac: MacAddr([0; 6]), at: 0 };
}

impl NextHops {
    /// Makes the next hops of a worker, with room for 4,096 peers: 128 KiB. `key` is random.
    #[must_use]
    pub fn new(config: Arc<PortConfig>, key: [u64; 2]) -> Self {
        let fixed = |is_v4: bool| {
            let gateways = config.gateways.iter();
            let of_family: Vec<_> = gateways.filter(|ip| ip.is_ipv4() == is_v4).collect();
            let macs: Option<Box<[_]>> =
                of_family.iter().map(|gateway| config.fixed_neighbor(**gateway)).collect();
            macs.filter(|macs| !macs.is_empty())
        };
        let mut hops = Self {
            fixed_gateways: [fixed(true), fixed(false)],
            resolved: NeighborTable::default(),
            gateway_macs: Vec::with_capacity(config.gateways.len()),
            forwarders: ([Recent::FREE.mac; FORWARDERS], 0),
            key,
            recent: vec![[Recent::FREE; WAYS]; SETS].into(),
            config,
        };
        hops.set_resolved(NeighborTable::default());
        hops
    }

    /// Takes what the stack resolved, in place of what it resolved before.
    pub fn set_resolved(&mut self, table: NeighborTable) {
        self.resolved = table;
        self.gateway_macs.clear();
        for gateway in &self.config.gateways {
            self.gateway_macs.extend(self.station(*gateway));
        }
    }

    /// Returns the fixed or resolved Ethernet address of a host of the link.
    fn station(&self, address: IpAddr) -> Option<MacAddr> {
        let fixed = self.config.fixed_neighbor(address);
        fixed.or_else(|| self.resolved.get(address))
    }

    /// Notes the station that a datagram of `peer` came from. Called for each received datagram: an entry that is right and
    /// younger than a second costs one look.
    pub fn on_received(&mut self, peer: IpAddr, mac: MacAddr, now_ms: u64) {
        let key = mapped(peer);
        let index = self.set_of(key);
        let set = &self.recent[index];
        let found = set.iter().position(|recent| recent.peer == key);
        if let Some(way) = found
            && set[way].mac == mac
            && now_ms.saturating_sub(set[way].at) < RENEWAL
        {
            return;
        }
        if !self.may_come_from(peer, mac) {
            return;
        }
        if !self.config.is_on_link(peer) {
            self.note_forwarder(mac);
        } else if self.is_forwarded(peer, mac)
            && let Some(way) = found
            && !self.is_forwarded(peer, self.recent[index][way].mac)
        {
            return;
        }
        let set = &mut self.recent[index];
        let way = found.unwrap_or_else(|| {
            let ages = set.iter().enumerate();
            ages.min_by_key(|(_, recent)| recent.at).map_or(0, |(way, _)| way)
        });
        set[way] = Recent { peer: key, mac, at: now_ms };
    }

    /// Returns where a frame to `destination` goes.
    #[must_use]
    pub fn lookup(&self, destination: IpAddr, now_ms: u64) -> NextHop {
        let key = mapped(destination);
        let set = &self.recent[self.set_of(key)];
        let taken = |recent: &&Recent| recent.peer == key && recent.mac != Recent::FREE.mac;
        let recent = set.iter().find(taken);
        let fresh = recent.filter(|recent| now_ms.saturating_sub(recent.at) < FRESH);
        if self.config.is_on_link(destination) {
            // The router may have been unknown when the frame came.
            let direct = fresh.filter(|fresh| !self.is_forwarded(destination, fresh.mac));
            let known = self.station(destination);
            return match (known.or(direct.map(|direct| direct.mac)), recent) {
                (Some(mac), _) => NextHop::Known(mac),
                (None, Some(recent)) => NextHop::Stale(recent.mac),
                (None, None) => NextHop::Unresolved,
            };
        }
        if let Some(fresh) = fresh {
            return NextHop::Known(fresh.mac);
        }
        let family = destination.is_ipv4();
        let gateways = self.config.gateways.iter();
        let mut gateways = gateways.filter(|ip| ip.is_ipv4() == family);
        let has_route = gateways.clone().next().is_some();
        let known = gateways.find_map(|gateway| self.station(*gateway));
        match (known, recent) {
            (Some(mac), _) => NextHop::Known(mac),
            (None, Some(recent)) => NextHop::Stale(recent.mac),
            (None, None) if has_route => NextHop::Unresolved,
            (None, None) => NextHop::NoRoute,
        }
    }

    /// Returns whether fixed neighbours allow the station to send for the peer.
    fn may_come_from(&self, peer: IpAddr, mac: MacAddr) -> bool {
        if let Some(fixed) = self.config.fixed_neighbor(peer) {
            return mac == fixed;
        }
        let fixed = self.fixed_gateways[usize::from(peer.is_ipv6())].as_ref();
        fixed.is_none_or(|gateways| gateways.contains(&mac) || self.config.is_on_link(peer))
    }

    /// Returns whether a frame of an on-link host that the station sent may have come from beyond the link.
    fn is_forwarded(&self, peer: IpAddr, mac: MacAddr) -> bool {
        let is_router = self.gateway_macs.contains(&mac) || self.forwarders.0.contains(&mac);
        is_router && !self.config.gateways.contains(&peer)
    }

    /// Notes a station that a frame from beyond the link came from.
    fn note_forwarder(&mut self, mac: MacAddr) {
        let (macs, next) = &mut self.forwarders;
        if !macs.contains(&mac) {
            macs[*next] = mac;
            *next = (*next + 1) % FORWARDERS;
        }
    }

    /// Returns the set of a peer: a hash whose collisions depend on the key.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the halves of a product, and the low bits of a hash"
    )]
    fn set_of(&self, peer: Ipv6Addr) -> usize {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let bits = peer.to_bits();
        let halves = fold(bits as u64 ^ self.key[0], (bits >> 64) as u64 ^ self.key[1]);
        fold(halves ^ self.key[1], self.key[0] | 1) as usize % SETS
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hops(key: [u64; 2]) -> NextHops {
        let config = PortConfig {
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            vlan: None,
            mtu: 1500,
            addresses: vec![(Ipv6Addr::LOCALHOST.into(), 64)],
            gateways: vec![],
            neighbors: vec![],
            scope_id: 1,
        };
        NextHops::new(Arc::new(config), key)
    }

    #[test]
    fn peers_that_share_a_set_under_one_key_do_not_under_another() {
        let one = hops([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
        let other = hops([0x1357_9bdf_0246_8ace, 0xeca8_6420_fdb9_7531]);
        // Peers that differ in the high bits of an interface ID, of a prefix, and in all of IPv4.
        let kinds: [fn(u128) -> u128; 3] = [
            |n| 0x2001_0db8 << 96 | n << 42,
            |n| 0x2001_0db8 << 96 | n << 66,
            |n| 0xffff << 32 | n << 10,
        ];
        for kind in kinds {
            let peers = (0..100_000).map(|n| Ipv6Addr::from_bits(kind(n)));
            let set = one.set_of(Ipv6Addr::from_bits(kind(0)));
            let sharing: Vec<_> = peers.filter(|peer| one.set_of(*peer) == set).collect();
            assert!((50..150).contains(&sharing.len()), "{}", sharing.len());
            let set = other.set_of(sharing[0]);
            let again = sharing.iter().filter(|peer| other.set_of(**peer) == set);
            assert!(again.count() < 5);
        }
    }
}
