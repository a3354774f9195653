//! The handler that opens tunnels for UDP.

use std::fmt;
use std::time::Duration;

use ipnet::IpNet;

use super::host_pattern::{HostPattern, host_or_pattern};
use super::network::network;
use crate::field::words_in_fields;
use crate::schema::{Kind, Refusal, count, duration, seconds};
use crate::value::Word;

table! {
    /// The route above opens tunnels for UDP (CONNECT-UDP, RFC 9298) to clients that ask for one by extended CONNECT, over HTTP/3 or
    /// HTTP/2: the client sends and receives datagrams of a target as if from this server. The part of the request's path that
    /// follows the route's `path` names the target: "/192.0.2.1/443/". Clients expect the path /.well-known/masque/udp. Datagrams
    /// pass in capsules (RFC 9297 §3.5), not in datagrams of QUIC. Everybody who may use the route reaches the targets from this
    /// server's address, so restrict the route by `allow` or `basic_auth`.
    #[derive(Eq)]
    pub struct ConnectUdp = [route.connect_udp] {
        /// Targets that clients may reach, as host and port. The host is a name, a wildcard such as *.example.com, an address or a
        /// network, IPv6 in brackets; * as the port stands for every port. Other targets get 403. A name is looked up here, and
        /// only its public addresses count; others must be in a network of this list.
        targets as allow: Vec<UdpTarget> {
            kind: Kind::Words {
                words: "a host and port such as \"dns.example.com:53\", \"*.example.com:*\", \"192.0.2.0/24:443\" or \
                        \"[2001:db8::/32]:443\"",
                each: "",
                min: 1,
                max: 1024,
                read: target,
            },
            required: "\"dns.example.com:53\"",
            examples: ["[\"192.0.2.0/24:443\", \"*.example.com:*\"]"],
            reload: Live
        },
        /// Time without a datagram in either direction after which a tunnel is closed. RFC 4787 advises against less than two
        /// minutes. connection_lifetime and connection_drain_timeout of `[limits]` wait for tunnels; server.drain_timeout
        /// ends them with the process or their listener, and so may the server when memory is short.
        idle_timeout: Duration { kind: duration(seconds(1), seconds(86_400)), default: "\"2m\"", reload: Live },
        /// Number of tunnels of a worker, those of other routes included, from which on the route opens no further one; its
        /// requests get 503. A client has no more than it leaves free: alone half of them. Each tunnel has a socket.
        max_tunnels: u64 { kind: count(1, 65_536, "tunnels"), default: "256", reload: Live },
    }
}

/// Target of tunnels for UDP.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UdpTarget {
    /// Host.
    pub host: UdpHost,
    /// Port; `None` for every port.
    pub port: Option<u16>,
}

/// Host of a [`UdpTarget`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UdpHost {
    /// A name, or the names below one.
    Name(HostPattern),
    /// Every address of a network.
    Network(IpNet),
}

impl fmt::Display for UdpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            UdpHost::Name(name) => name.fmt(f)?,
            UdpHost::Network(IpNet::V4(network)) => network.fmt(f)?,
            UdpHost::Network(IpNet::V6(network)) => write!(f, "[{network}]")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => f.write_str(":*"),
        }
    }
}

impl Word for UdpTarget {
    fn of_canonical(word: String) -> Option<Self> {
        let (host, port) = word.rsplit_once(':')?;
        let network = host.trim_start_matches('[').trim_end_matches(']').parse();
        Some(Self {
            host: match network {
                Ok(network) => UdpHost::Network(network),
                Err(_) => UdpHost::Name(HostPattern::of_canonical(host.to_owned())?),
            },
            port: if port == "*" { None } else { Some(port.parse().ok()?) },
        })
    }
}

words_in_fields!(UdpTarget);

/// Reads a target. Its port has no leading zeros.
fn target(word: &str) -> Result<String, Refusal> {
    let (host, port) = word.rsplit_once(':').ok_or_else(Refusal::default)?;
    let number = port.parse::<u16>().ok().filter(|number| *number > 0);
    if port != "*" && number.map(|number| number.to_string()).as_deref() != Some(port) {
        return Err(Refusal::default());
    }
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_network =
        |text: &str| text.parse::<IpNet>().is_ok() || text.parse::<std::net::IpAddr>().is_ok();
    let host = match bracketed {
        Some(inner) if inner.contains(':') => format!("[{}]", network(inner)?),
        None if !host.contains(':') && is_network(host) => network(host)?,
        None => host_or_pattern(host)?,
        Some(_) => return Err(Refusal::default()),
    };
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_one_spelling() {
        for (given, canonical) in [
            ("DNS.example.com:53", "dns.example.com:53"),
            ("*.example.com:*", "*.example.com:*"),
            ("192.0.2.1:443", "192.0.2.1/32:443"),
            ("192.0.2.0/24:443", "192.0.2.0/24:443"),
            ("[2001:DB8::1]:53", "[2001:db8::1/128]:53"),
            ("[2001:db8::/32]:*", "[2001:db8::/32]:*"),
        ] {
            let read = target(given).unwrap();
            assert_eq!(read, canonical);
            assert_eq!(UdpTarget::of_canonical(read).unwrap().to_string(), canonical);
        }
        for refused in [
            "",
            "a",
            ":53",
            "a:",
            "a:0",
            "a:65536",
            "a:053",
            "a:+1",
            "192.0.2.1/24:1",
            "2001:db8::1:53",
            "[192.0.2.1]:53",
            "a b:53",
            "*:53",
        ] {
            assert!(target(refused).is_err(), "{refused}");
        }
    }
}
