//! An operator's configuration of a port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address::MacAddr;

/// Smallest MTU of a link that carries IPv6 (RFC 8200 §5), which is also what QUIC needs (RFC 9000 §14).
const MIN_MTU: usize = 1280;
/// Largest MTU: what the length fields of IP can say.
const MAX_MTU: usize = 65535;
/// Most addresses of a port. Each received packet is compared with all of its family.
const MAX_ADDRESSES: usize = 64;

/// Addresses and neighbours of a port. Nothing of it is learned from the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Ethernet address of the port.
    pub mac: MacAddr,
    /// VLAN of all frames of the port, 1 to 4094; `None` for frames without a tag.
    pub vlan: Option<u16>,
    /// Longest IP packet of the link, bytes, headers of IP included and Ethernet's not.
    pub mtu: usize,
    /// Addresses of the host, each with the length of its link's prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Routers to everything that is on no link: one for each family that has clients beyond the link. If there are
    /// more of a family, the first whose Ethernet address is known is used. A gateway may be outside the prefixes only
    /// where all addresses of its family are single hosts (/32, /128), as clouds assign them.
    pub gateways: Vec<IpAddr>,
    /// Ethernet addresses of hosts and gateways that are fixed: what the network says about them is ignored.
    pub neighbors: Vec<(IpAddr, MacAddr)>,
    /// Scope ID of link-local IPv6 addresses of the link, in what [`FrameParser`](crate::FrameParser) returns: the index
    /// of the interface where the kernel has one for the port, else any number other than 0.
    pub scope_id: u32,
}

/// Defect of a [`PortConfig`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An Ethernet address is that of a group, or zero.
    #[error("{0} is not the Ethernet address of one station")]
    Mac(MacAddr),
    /// The VLAN is not a number of a VLAN.
    #[error("VLAN {0} does not exist: expected a number from 1 to 4094")]
    Vlan(u16),
    /// The MTU is too small or too large.
    #[error("an MTU of {0} is not possible: expected 1280 to 65535")]
    Mtu(usize),
    /// There is no address, or there are too many.
    #[error("{0} addresses are not possible: expected 1 to 64")]
    Addresses(usize),
    /// An address is not one of a single host.
    #[error("{0} is not the address of one host")]
    Address(IpAddr),
    /// A prefix is longer than its address.
    #[error("{0}/{1} is not a prefix: IPv4 has up to 32 bits, IPv6 up to 128")]
    Prefix(IpAddr, u8),
    /// A gateway or neighbour is not on a link of the port.
    #[error("{0} is outside the prefixes of the port's addresses")]
    OffLink(IpAddr),
    /// A gateway or neighbour is the port itself.
    #[error("{0} is an address of the port itself")]
    Own(IpAddr),
    /// Two entries give one neighbour.
    #[error("neighbor {0} is listed twice")]
    Duplicate(IpAddr),
    /// The scope ID is 0.
    #[error("the scope ID of the link must not be 0")]
    Scope,
}

impl PortConfig {
    /// Checks everything that the other types of this crate take for granted.
    ///
    /// # Errors
    /// Returns the first defect, in words for the operator; whoever knows names the key.
    pub fn check(&self) -> Result<(), ConfigError> {
        let macs = self.neighbors.iter().map(|(_, mac)| *mac);
        if let Some(mac) = [self.mac].into_iter().chain(macs).find(|m| !m.is_unicast()) {
            return Err(ConfigError::Mac(mac));
        }
        if let Some(vlan) = self.vlan.filter(|vlan| !(1..=4094).contains(vlan)) {
            return Err(ConfigError::Vlan(vlan));
        }
        if !(MIN_MTU..=MAX_MTU).contains(&self.mtu) {
            return Err(ConfigError::Mtu(self.mtu));
        }
        if !(1..=MAX_ADDRESSES).contains(&self.addresses.len()) {
            return Err(ConfigError::Addresses(self.addresses.len()));
        }
        if self.scope_id == 0 {
            return Err(ConfigError::Scope);
        }
        for (address, prefix_len) in &self.addresses {
            if !is_host(*address) {
                return Err(ConfigError::Address(*address));
            }
            let bits = if address.is_ipv4() { 32 } else { 128 };
            if *prefix_len > bits {
                return Err(ConfigError::Prefix(*address, *prefix_len));
            }
        }
        let neighbors = self.neighbors.iter().map(|(address, _)| address);
        for address in self.gateways.iter().chain(neighbors) {
            if !is_host(*address) {
                return Err(ConfigError::Address(*address));
            }
            if self.owns(*address) {
                return Err(ConfigError::Own(*address));
            }
            if !self.is_in_prefix(*address) && !self.has_hosts_only(*address) {
                return Err(ConfigError::OffLink(*address));
            }
        }
        let mut neighbors: Vec<_> = self.neighbors.iter().map(|(address, _)| *address).collect();
        neighbors.sort_unstable();
        let twice = neighbors.windows(2).find(|pair| pair[0] == pair[1]);
        twice.map_or(Ok(()), |pair| Err(ConfigError::Duplicate(pair[0])))
    }

    /// Returns whether the address is one of the port's.
    #[must_use]
    pub fn owns(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// Returns whether the address is on the port's link: inside a prefix of an address, link-local IPv6, a gateway or a
    /// fixed neighbour.
    #[must_use]
    pub fn is_on_link(&self, address: IpAddr) -> bool {
        self.is_in_prefix(address)
            || self.gateways.contains(&address)
            || self.fixed_neighbor(address).is_some()
    }

    fn is_in_prefix(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V6(address) if address.is_unicast_link_local() => true,
            _ => {
                let mut prefixes = self.addresses.iter();
                prefixes.any(|(own, len)| shares_prefix(*own, address, *len))
            }
        }
    }

    /// Returns whether the port has addresses of this one's family, and all are single hosts.
    fn has_hosts_only(&self, address: IpAddr) -> bool {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let own = self.addresses.iter();
        let mut family = own.filter(|(own, _)| own.is_ipv4() == address.is_ipv4());
        family.clone().next().is_some() && family.all(|(_, len)| *len == bits)
    }

    /// Returns the port's address to ask for a neighbour from: one whose prefix has it, else the first of its family.
    pub(crate) fn source_for(&self, neighbor: IpAddr) -> Option<IpAddr> {
        let own = || self.addresses.iter();
        let near = own().find(|(own, len)| shares_prefix(*own, neighbor, *len));
        let first = || own().find(|(own, _)| own.is_ipv4() == neighbor.is_ipv4());
        near.or_else(first).map(|(own, _)| *own)
    }

    /// Returns the fixed Ethernet address of a neighbour.
    pub(crate) fn fixed_neighbor(&self, address: IpAddr) -> Option<MacAddr> {
        let mut fixed = self.neighbors.iter();
        let found = fixed.find(|(neighbor, _)| *neighbor == address);
        found.map(|(_, mac)| *mac)
    }

    /// Returns the broadcast addresses of the port's IPv4 prefixes, and the all-ones address.
    pub(crate) fn broadcasts(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        let of_prefix = |(address, len): &(IpAddr, u8)| match address {
            // Prefixes of 31 and 32 bits have none (RFC 3021).
            IpAddr::V4(address) if *len < 31 => {
                Some(Ipv4Addr::from_bits(address.to_bits() | u32::MAX >> *len))
            }
            _ => None,
        };
        let all = [Ipv4Addr::BROADCAST].into_iter();
        all.chain(self.addresses.iter().filter_map(of_prefix))
    }
}

/// Returns whether the first `len` bits of two addresses of one family are equal.
fn shares_prefix(own: IpAddr, other: IpAddr, len: u8) -> bool {
    let len = u32::from(len);
    match (own, other) {
        (IpAddr::V4(own), IpAddr::V4(other)) => {
            (own.to_bits() ^ other.to_bits()).leading_zeros() >= len.min(32)
        }
        (IpAddr::V6(own), IpAddr::V6(other)) => {
            (own.to_bits() ^ other.to_bits()).leading_zeros() >= len.min(128)
        }
        _ => false,
    }
}

/// Returns whether the address can be that of one host on a network.
pub(crate) fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_host_v4(address),
        IpAddr::V6(address) => is_host_v6(address),
    }
}

/// Returns whether the address is outside 0.0.0.0/8, 127.0.0.0/8, multicast, 240.0.0.0/4 and broadcast.
pub(crate) fn is_host_v4(address: Ipv4Addr) -> bool {
    !matches!(address.octets()[0], 0 | 127 | 224..)
}

/// Returns whether the address is none of unspecified, loopback, multicast, and IPv4 mapped into IPv6, which is none of
/// the network (RFC 4291 §2.5.5.2).
pub(crate) fn is_host_v6(address: Ipv6Addr) -> bool {
    let bits = address.to_bits();
    bits > 1 && !address.is_multicast() && bits >> 32 != 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> PortConfig {
        PortConfig {
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            vlan: None,
            mtu: 1500,
            addresses: vec![
                ("192.0.2.1".parse().unwrap(), 24),
                ("2001:db8::1".parse().unwrap(), 64),
            ],
            gateways: vec!["192.0.2.254".parse().unwrap(), "fe80::1".parse().unwrap()],
            neighbors: vec![("2001:db8::2".parse().unwrap(), MacAddr([2, 0, 0, 0, 0, 2]))],
            scope_id: 1,
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn defects_are_named() {
        type Case = (fn(&mut PortConfig), ConfigError);
        let cases: [Case; 12] = [
            (|config| config.mac = MacAddr::BROADCAST, ConfigError::Mac(MacAddr::BROADCAST)),
            (|config| config.neighbors[0].1 = MacAddr([0; 6]), ConfigError::Mac(MacAddr([0; 6]))),
            (|config| config.vlan = Some(0), ConfigError::Vlan(0)),
            (|config| config.vlan = Some(4095), ConfigError::Vlan(4095)),
            (|config| config.mtu = 1279, ConfigError::Mtu(1279)),
            (|config| config.addresses.clear(), ConfigError::Addresses(0)),
            (
                |config| config.addresses[0].0 = ip("224.0.0.1"),
                ConfigError::Address(ip("224.0.0.1")),
            ),
            (|config| config.addresses[0].1 = 33, ConfigError::Prefix(ip("192.0.2.1"), 33)),
            (
                |config| config.gateways[0] = ip("198.51.100.1"),
                ConfigError::OffLink(ip("198.51.100.1")),
            ),
            (|config| config.gateways[0] = ip("192.0.2.1"), ConfigError::Own(ip("192.0.2.1"))),
            (
                |config| config.neighbors.push(config.neighbors[0]),
                ConfigError::Duplicate(ip("2001:db8::2")),
            ),
            (|config| config.scope_id = 0, ConfigError::Scope),
        ];
        assert_eq!(config().check(), Ok(()));
        for (change, defect) in cases {
            let mut config = config();
            change(&mut config);
            assert_eq!(config.check(), Err(defect));
        }
    }

    #[test]
    fn hosts_without_a_prefix_may_have_any_gateway() {
        let mut config = config();
        let gateway = ip("169.254.1.1");
        config.gateways = vec![gateway];
        assert_eq!(config.check(), Err(ConfigError::OffLink(gateway)));
        assert!(!config.is_on_link(ip("198.51.100.1")));
        config.addresses[0].1 = 32;
        assert_eq!(config.check(), Ok(()));
        assert!(config.is_on_link(gateway) && !config.is_on_link(ip("192.0.2.2")));
        assert_eq!(config.source_for(gateway), Some(ip("192.0.2.1")));
        config.addresses.remove(0);
        assert_eq!(config.check(), Err(ConfigError::OffLink(gateway)), "no IPv4");
    }

    #[test]
    fn links_end_with_their_prefixes() {
        let config = config();
        for near in ["192.0.2.200", "2001:db8::ffff", "fe80::77"] {
            assert!(config.is_on_link(ip(near)), "{near}");
        }
        for far in ["192.0.3.1", "2001:db8:0:1::1", "fd00::1"] {
            assert!(!config.is_on_link(ip(far)), "{far}");
        }
        let broadcasts: Vec<_> = config.broadcasts().collect();
        assert_eq!(broadcasts, [Ipv4Addr::BROADCAST, Ipv4Addr::new(192, 0, 2, 255)]);
    }

    #[test]
    fn only_hosts_are_hosts() {
        for address in ["1.2.3.4", "192.168.0.1", "2001:db8::1", "fe80::1", "fd00::2"] {
            assert!(is_host(ip(address)), "{address}");
        }
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "ff02::1",
            "::ffff:192.0.2.1",
        ] {
            assert!(!is_host(ip(address)), "{address}");
        }
    }
}
