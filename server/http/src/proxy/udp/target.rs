//! Targets of tunnels for UDP, and the addresses that clients may reach.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sluicegate_config::{UdpHost, UdpTarget};

use super::refusal::TunnelRefusal;
use crate::proxy::transport::look_up;

/// Longest name of a host.
const MAX_NAME: usize = 253;

/// Target that a client asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    host: Host,
    port: u16,
}

#[derive(Debug, PartialEq, Eq)]
enum Host {
    Address(IpAddr),
    /// A name in lower case.
    Name(String),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(address) => SocketAddr::new(*address, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

impl Target {
    /// Reads `host/port/` (RFC 9298 §3), which is percent-decoded already.
    pub(super) fn parse(path: &str) -> Option<Target> {
        let path = path.strip_suffix('/').unwrap_or(path);
        let (host, port) = path.split_once('/')?;
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse::<u16>().ok().filter(|port| is_number && *port > 0)?;
        let host = match host.parse::<IpAddr>() {
            Ok(address) => Host::Address(address.to_canonical()),
            Err(_) => Host::Name(name(host)?),
        };
        Some(Target { host, port })
    }

    /// Returns the address to connect to, if `targets` allow it.
    ///
    /// # Errors
    /// The target is not allowed, or its name has no address.
    pub(super) async fn address(&self, targets: &[UdpTarget]) -> Result<SocketAddr, TunnelRefusal> {
        let of_port = |target: &&UdpTarget| target.port.is_none_or(|port| port == self.port);
        let is_listed = |address: &IpAddr| {
            targets.iter().filter(of_port).any(
                |target| matches!(&target.host, UdpHost::Network(network) if network.contains(address)),
            )
        };
        let name = match &self.host {
            Host::Address(address) => {
                let allowed = is_listed(address).then_some(*address);
                return allowed
                    .map(|address| (address, self.port).into())
                    .ok_or(TunnelRefusal::Denied);
            }
            Host::Name(name) => name,
        };
        let mut listed = targets.iter().filter(of_port);
        if !listed
            .any(|target| matches!(&target.host, UdpHost::Name(pattern) if pattern.matches(name)))
        {
            return Err(TunnelRefusal::Denied);
        }
        let found = look_up(name, &[]).await;
        if found.is_empty() {
            return Err(TunnelRefusal::Resolve);
        }
        // Whoever owns the name must not lead clients to hosts beside this one.
        let mut found = found.into_iter().map(|address| address.to_canonical());
        let allowed = found.find(|address| is_public(*address) || is_listed(address));
        allowed.map(|address| (address, self.port).into()).ok_or(TunnelRefusal::Denied)
    }
}

/// Returns a name of a host in lower case.
fn name(host: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let fits = (1..=MAX_NAME).contains(&host.len()) && host.bytes().all(plain);
    fits.then(|| host.to_ascii_lowercase())
}

/// Returns whether an address is of the public Internet (RFC 6890), and not of this host or its networks.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && b & 0xc0 == 64;
    let is_protocols = (a, b, c) == (192, 0, 0);
    let is_benchmark = a == 198 && b & 0xfe == 18;
    let is_local = address.is_private() || address.is_loopback() || address.is_link_local();
    let is_reserved = a == 0 || a >= 224 || address.is_documentation();
    !(is_local || is_reserved || is_shared || is_protocols || is_benchmark)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // Addresses of 6to4 and Teredo have others inside.
    let is_unicast = a & 0xe000 == 0x2000;
    is_unicast && a != 0x2002 && !(a == 0x2001 && (b < 0x200 || b == 0xdb8))
}

#[cfg(test)]
mod tests {
    use super::*;

    use sluicegate_config::HostPattern;

    /// Returns a target of the configuration.
    fn listed(text: &str) -> UdpTarget {
        let (host, port) = text.rsplit_once(':').unwrap();
        let pattern = match host.strip_prefix('*') {
            Some(suffix) => HostPattern::Suffix(suffix.to_owned()),
            None => HostPattern::Exact(host.to_owned()),
        };
        UdpTarget {
            host: host.parse().map_or(UdpHost::Name(pattern), UdpHost::Network),
            port: port.parse().ok(),
        }
    }

    /// Returns the address that a client may reach for a target, on a runtime for lookups.
    fn allowed(path: &str, targets: &[&str]) -> Result<SocketAddr, TunnelRefusal> {
        let targets: Vec<UdpTarget> = targets.iter().map(|text| listed(text)).collect();
        let target = Target::parse(path).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(target.address(&targets))
    }

    #[test]
    fn path_names_a_host_and_a_port() {
        for (path, target) in [
            ("192.0.2.1/443/", "192.0.2.1:443"),
            ("192.0.2.1/443", "192.0.2.1:443"),
            ("2001:db8::1/53/", "[2001:db8::1]:53"),
            ("::ffff:192.0.2.1/53/", "192.0.2.1:53"),
            ("DNS.example.com/53/", "dns.example.com:53"),
        ] {
            assert_eq!(Target::parse(path).unwrap().to_string(), target);
        }
        let long = format!("{}/53/", "a".repeat(254));
        for refused in [
            "",
            "a",
            "a/",
            "a/0/",
            "a/65536/",
            "a/+1/",
            "/53/",
            "a/53/x/",
            "a b/53/",
            "[::1]/53/",
            &long,
        ] {
            assert_eq!(Target::parse(refused), None, "{refused}");
        }
    }

    #[test]
    fn addresses_must_be_in_a_network_of_the_list_with_their_port() {
        let list = ["192.0.2.0/24:443"];
        assert!(allowed("192.0.2.9/443/", &list).is_ok());
        for refused in ["192.0.2.9/444/", "192.0.3.1/443/", "127.0.0.1/443/", "example.com/443/"] {
            assert_eq!(allowed(refused, &list), Err(TunnelRefusal::Denied), "{refused}");
        }
        let any_port = ["127.0.0.0/8:*"];
        assert!(allowed("127.0.0.1/1/", &any_port).is_ok());
        assert!(allowed("::ffff:127.0.0.1/1/", &any_port).is_ok());
    }

    #[test]
    fn name_leads_to_no_host_beside_this_one_unless_its_network_is_listed() {
        assert_eq!(allowed("localhost/53/", &["localhost:53"]), Err(TunnelRefusal::Denied));
        assert_eq!(allowed("localhost/54/", &["localhost:53"]), Err(TunnelRefusal::Denied));
        let both = ["localhost:53", "127.0.0.0/8:53"];
        let address = allowed("localhost/53/", &both).unwrap();
        assert!(address.ip().is_loopback() && address.port() == 53);
        let wrong_port = ["localhost:53", "127.0.0.0/8:54"];
        assert_eq!(allowed("localhost/53/", &wrong_port), Err(TunnelRefusal::Denied));
        assert_eq!(allowed("nothing.invalid/53/", &["*.invalid:53"]), Err(TunnelRefusal::Resolve));
    }

    #[test]
    fn special_addresses_are_not_public() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "64:ff9b::a00:1",
            "2002:a00:1::1",
            "2001:0:1::1",
            "2001:db8::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in
            ["1.1.1.1", "100.128.0.1", "198.20.0.1", "2606:4700::1111", "2001:4860:4860::8888"]
        {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }
}
