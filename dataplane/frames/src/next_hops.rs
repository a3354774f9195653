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
        let found = self
            .0
            .binary_search_by_key(&address, |(address, _)| *address);
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
/// Of these, the first that is known counts:
/// 1. the fixed neighbour, for a destination on the link,
/// 2. the sender of the last frame from the destination, for 30 s: a client behind a router is answered through the
///    router that its packets came by,
/// 3. what the stack resolved: the destination, or the gateway for one that is on no link,
/// 4. the sender of the last frame, however long ago.
///
/// A station of the link can claim any client's address and so receive its replies, as it could by forged ARP. It
/// cannot where the addresses are fixed: a fixed neighbour's frames count from its own station only, and if all
/// gateways of a family are fixed, frames from beyond the link count from these only.
///
/// [`Stack`]: crate::Stack
#[derive(Clone, Debug)]
pub struct NextHops {
    config: Arc<PortConfig>,
    /// Ethernet addresses of the gateways of IPv4 and of IPv6, where all of the family are fixed.
    fixed_gateways: [Option<Box<[MacAddr]>>; 2],
    resolved: NeighborTable,
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
    const FREE: Self = Self {
        peer: Ipv6Addr::UNSPECIFIED,
        mac: MacAddr([0; 6]),
        at: 0,
    };
}

impl NextHops {
    /// Makes the next hops of a worker, with room for 4,096 peers: 128 KiB.
    #[must_use]
    pub fn new(config: Arc<PortConfig>) -> Self {
        let fixed = |is_v4: bool| {
            let gateways = config.gateways.iter();
            let of_family: Vec<_> = gateways.filter(|ip| ip.is_ipv4() == is_v4).collect();
            let macs: Option<Box<[_]>> = of_family
                .iter()
                .map(|gateway| config.fixed_neighbor(**gateway))
                .collect();
            macs.filter(|macs| !macs.is_empty())
        };
        Self {
            fixed_gateways: [fixed(true), fixed(false)],
            resolved: NeighborTable::default(),
            recent: vec![[Recent::FREE; WAYS]; SETS].into(),
            config,
        }
    }

    /// Takes what the stack resolved, in place of what it resolved before.
    pub fn set_resolved(&mut self, table: NeighborTable) {
        self.resolved = table;
    }

    /// Notes the station that a datagram of `peer` came from. Called for each received datagram: an entry that is right and
    /// younger than a second costs one look.
    pub fn on_received(&mut self, peer: IpAddr, mac: MacAddr, now_ms: u64) {
        let key = mapped(peer);
        let set = &self.recent[set_of(key)];
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
        let set = &mut self.recent[set_of(key)];
        let way = found.unwrap_or_else(|| {
            let ages = set.iter().enumerate();
            ages.min_by_key(|(_, recent)| recent.at)
                .map_or(0, |(way, _)| way)
        });
        set[way] = Recent {
            peer: key,
            mac,
            at: now_ms,
        };
    }

    /// Returns where a frame to `destination` goes.
    #[must_use]
    pub fn lookup(&self, destination: IpAddr, now_ms: u64) -> NextHop {
        let key = mapped(destination);
        let set = &self.recent[set_of(key)];
        let taken = |recent: &&Recent| recent.peer == key && recent.mac != Recent::FREE.mac;
        let recent = set.iter().find(taken);
        // A fixed neighbour's entry can only have its own address.
        if let Some(recent) = recent
            && now_ms.saturating_sub(recent.at) < FRESH
        {
            return NextHop::Known(recent.mac);
        }
        let station = |address| {
            self.config
                .fixed_neighbor(address)
                .or_else(|| self.resolved.get(address))
        };
        let on_link = self.config.is_on_link(destination);
        let family = destination.is_ipv4();
        let mut gateways = self
            .config
            .gateways
            .iter()
            .filter(|ip| ip.is_ipv4() == family);
        let has_route = on_link || gateways.clone().next().is_some();
        let known = if on_link {
            station(destination)
        } else {
            gateways.find_map(|gateway| station(*gateway))
        };
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
        match &self.fixed_gateways[usize::from(peer.is_ipv6())] {
            Some(gateways) => gateways.contains(&mac) || self.config.is_on_link(peer),
            None => true,
        }
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the highest bits of a hash"
)]
fn set_of(key: Ipv6Addr) -> usize {
    // The fractional part of the golden ratio, odd: multiplication moves each bit upwards.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let bits = key.to_bits();
    let high = ((bits >> 64) as u64).wrapping_mul(SPREAD).rotate_left(32);
    let hash = (high ^ bits as u64).wrapping_mul(SPREAD);
    (hash >> 32) as usize % SETS
}
