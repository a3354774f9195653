//! Own addresses of a run, from which its connections come in turn.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

const EXPECTED: &str = "expected addresses, ranges and networks, such as 192.0.2.1,192.0.2.10-192.0.2.20,198.51.100.0/24";

/// Addresses as they were written: single ones, ranges and networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalIps {
    ranges: Vec<Range>,
}

/// Addresses that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: IpAddr,
    /// Number of addresses; at least one.
    count: u64,
}

impl LocalIps {
    /// Returns the address of connection number `index`, of those that can reach `peer`: they have the same version of IP.
    pub(crate) fn of(&self, index: u64, peer: IpAddr) -> Option<IpAddr> {
        let fitting = || {
            let ranges = self.ranges.iter();
            ranges.filter(|range| range.first.is_ipv4() == peer.is_ipv4())
        };
        let total = fitting().fold(0_u64, |sum, range| sum.saturating_add(range.count));
        let mut index = index.checked_rem(total)?;
        for range in fitting() {
            if index < range.count {
                return Some(range.nth(index));
            }
            index -= range.count;
        }
        None
    }
}

impl FromStr for LocalIps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ranges = text.split(',').map(|part| {
            Range::parse(part.trim())
                .ok_or_else(|| format!("`{part}` is none of these: {EXPECTED}"))
        });
        Ok(LocalIps { ranges: ranges.collect::<Result<_, _>>()? })
    }
}

impl Range {
    fn parse(text: &str) -> Option<Range> {
        if let Some((first, last)) = text.split_once('-') {
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            return Range::between(first, last);
        }
        let Some((address, prefix)) = text.split_once('/') else {
            let first = text.parse().ok()?;
            return Some(Range { first, count: 1 });
        };
        let (address, prefix): (IpAddr, u32) = (address.parse().ok()?, prefix.parse().ok()?);
        let width = if address.is_ipv4() { 32 } else { 128 };
        let host_bits = width - Some(prefix).filter(|prefix| *prefix <= width)?;
        let hosts = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1);
        let network = bits(address) & !hosts;
        // The first and the last address of an IPv4 network are no host's, but for /31 (RFC 3021) and /32.
        let edge = u128::from(address.is_ipv4() && host_bits > 1);
        Range::between(
            with_bits(address, network + edge),
            with_bits(address, network + hosts - edge),
        )
    }

    fn between(first: IpAddr, last: IpAddr) -> Option<Range> {
        if first.is_ipv4() != last.is_ipv4() {
            return None;
        }
        let more = bits(last).checked_sub(bits(first))?;
        let count = u64::try_from(more).unwrap_or(u64::MAX).saturating_add(1);
        Some(Range { first, count })
    }

    fn nth(&self, index: u64) -> IpAddr {
        with_bits(self.first, bits(self.first) + u128::from(index))
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Returns the address with these bits, of the same version as `like`.
fn with_bits(like: IpAddr, bits: u128) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or(u32::MAX)).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(bits).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str, peer: &str, count: u64) -> Vec<String> {
        let ips: LocalIps = text.parse().unwrap();
        let peer = peer.parse().unwrap();
        let all = (0..count).filter_map(|index| ips.of(index, peer));
        all.map(|ip| ip.to_string()).collect()
    }

    #[test]
    fn addresses_ranges_and_networks_take_turns() {
        let text = "127.0.0.9,127.0.1.254-127.0.2.0, 127.2.0.77/30";
        let all = [
            "127.0.0.9",
            "127.0.1.254",
            "127.0.1.255",
            "127.0.2.0",
            "127.2.0.77",
            "127.2.0.78",
            "127.0.0.9",
        ];
        assert_eq!(addresses(text, "127.0.0.1", 7), all);
        assert_eq!(addresses("10.0.0.4/31", "127.0.0.1", 3), ["10.0.0.4", "10.0.0.5", "10.0.0.4"]);
        assert_eq!(addresses("10.0.0.4/32", "127.0.0.1", 2), ["10.0.0.4", "10.0.0.4"]);
        assert_eq!(addresses("2001:db8::/64", "::1", 2), ["2001:db8::", "2001:db8::1"]);
    }

    #[test]
    fn only_addresses_of_the_servers_version_serve() {
        assert_eq!(addresses("::1,10.0.0.1", "127.0.0.1", 2), ["10.0.0.1", "10.0.0.1"]);
        assert!(addresses("10.0.0.1", "::1", 2).is_empty());
    }

    #[test]
    fn whole_versions_of_ip_are_networks_too() {
        assert_eq!(addresses("0.0.0.0/0", "127.0.0.1", 1), ["0.0.0.1"]);
        assert_eq!(addresses("::/0", "::1", 2), ["::", "::1"]);
        let ips: LocalIps = "0.0.0.0/0".parse().unwrap();
        assert_eq!(ips.of(u64::MAX, "1.1.1.1".parse().unwrap()).map(|ip| ip.is_ipv4()), Some(true));
    }

    #[test]
    fn mistakes_are_refused() {
        for text in [
            "",
            ",",
            "a",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.2-10.0.0.1",
            "10.0.0.1-::1",
            "10.0.0.1/",
            "10.0.0.1-",
        ] {
            let error = text.parse::<LocalIps>().unwrap_err();
            assert!(error.contains("192.0.2.1"), "{text}: {error}");
        }
    }
}
