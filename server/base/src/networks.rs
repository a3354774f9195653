//! Sets of IP networks.

use std::net::IpAddr;

use ipnet::IpNet;

/// Set of IP networks. A lookup takes a time that grows with the logarithm of their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    /// First and last addresses of the networks, sorted and disjoint; IPv4 before IPv6.
    ranges: Box<[(IpAddr, IpAddr)]>,
}

impl Networks {
    /// Returns the set of these networks, which may contain each other.
    pub fn new(networks: &[IpNet]) -> Networks {
        let range = |network: &IpNet| (network.network(), network.broadcast());
        let mut ranges: Vec<_> = networks.iter().map(range).collect();
        // Of networks that begin at the same address, the largest comes first.
        ranges.sort_by_key(|(first, last)| (*first, std::cmp::Reverse(*last)));
        // Two networks are disjoint, or one contains the other.
        ranges.dedup_by(|(_, last), (_, outer)| *last <= *outer);
        Networks { ranges: ranges.into() }
    }

    /// Returns whether the set has no network.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns whether each network of the others lies within one of these.
    pub fn covers(&self, others: &Networks) -> bool {
        let mut others = others.ranges.iter();
        others.all(|(first, last)| {
            let mut own = self.ranges.iter();
            own.any(|(from, to)| from <= first && last <= to)
        })
    }

    /// Returns whether a network contains the address. An IPv4 address that an IPv6 socket reported counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let after = self.ranges.partition_point(|(first, _)| *first <= address);
        let before = after.checked_sub(1).and_then(|at| self.ranges.get(at));
        before.is_some_and(|(_, last)| address <= *last)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use ipnet::{Ipv4Net, Ipv6Net};
    use proptest::prelude::*;

    use super::*;

    fn set(networks: &[&str]) -> Networks {
        let networks: Vec<IpNet> = networks.iter().map(|text| text.parse().unwrap()).collect();
        Networks::new(&networks)
    }

    #[test]
    fn networks_may_nest_and_end_at_the_last_address() {
        let networks = set(&["10.1.0.0/16", "10.0.0.0/8", "192.0.2.1/32", "fd00::/8"]);
        assert_eq!(networks.ranges.len(), 3);
        for (address, expected) in [
            ("9.255.255.255", false),
            ("10.0.0.0", true),
            ("10.200.0.1", true),
            ("10.255.255.255", true),
            ("11.0.0.0", false),
            ("192.0.2.1", true),
            ("192.0.2.2", false),
            ("::ffff:10.0.0.1", true),
            ("fdff:ffff::1", true),
            ("fe00::", false),
            ("::10.0.0.1", false),
        ] {
            assert_eq!(networks.contains(address.parse().unwrap()), expected, "{address}");
        }
        assert!(!set(&[]).contains(Ipv4Addr::LOCALHOST.into()));
        assert!(!set(&["::/0"]).contains(Ipv4Addr::LOCALHOST.into()));
        assert!(set(&["0.0.0.0/0"]).contains(Ipv4Addr::BROADCAST.into()));
    }

    #[test]
    fn networks_cover_those_within_them() {
        let outer = set(&["10.0.0.0/8", "fd00::/8"]);
        for (inner, expected) in [
            (&[][..], true),
            (&["10.0.0.0/8", "fd00::/8"], true),
            (&["10.1.0.0/16", "10.255.255.255/32"], true),
            (&["10.1.0.0/16", "11.0.0.0/32"], false),
            (&["8.0.0.0/6"], false),
            (&["::/0"], false),
        ] {
            assert_eq!(outer.covers(&set(inner)), expected, "{inner:?}");
        }
        assert!(!set(&[]).covers(&outer));
    }

    proptest! {
        /// The sorted ranges find what a comparison with every network finds.
        #[test]
        fn lookup_agrees_with_every_network(
            v4 in proptest::collection::vec((any::<u32>(), 0_u8..=32), 0..40),
            v6 in proptest::collection::vec((any::<u128>(), 0_u8..=128), 0..40),
            others in proptest::collection::vec(any::<u32>(), 0..20),
        ) {
            let near = |bits: u32| [bits, bits.wrapping_sub(1), bits.wrapping_add(1)];
            let mut networks: Vec<IpNet> = Vec::new();
            let mut addresses: Vec<IpAddr> = Vec::new();
            for (bits, length) in v4 {
                let network = Ipv4Net::new(Ipv4Addr::from_bits(bits), length).unwrap().trunc();
                let ends = [network.network().to_bits(), network.broadcast().to_bits()];
                addresses.extend(ends.into_iter().flat_map(near).map(|bits| IpAddr::from(Ipv4Addr::from_bits(bits))));
                networks.push(network.into());
            }
            for (bits, length) in v6 {
                let network = Ipv6Net::new(Ipv6Addr::from_bits(bits), length).unwrap().trunc();
                addresses.extend([network.network().into(), IpAddr::from(network.broadcast())]);
                networks.push(network.into());
            }
            addresses.extend(others.into_iter().map(|bits| IpAddr::from(Ipv4Addr::from_bits(bits))));
            let set = Networks::new(&networks);
            for address in addresses {
                let canonical = address.to_canonical();
                let expected = networks.iter().any(|network| network.contains(&canonical));
                prop_assert_eq!(set.contains(address), expected, "{}", address);
            }
        }
    }
}
