//! IP networks as values of keys.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::error::Error;
use crate::field::Element;
use crate::print;
use crate::schema::{Key, Kind, Reason, Refusal};
use crate::value::{Item, Word};

/// Length of the prefix of IPv4-mapped addresses.
const MAPPED_PREFIX: u8 = 96;

impl Word for IpNet {
    fn of_canonical(word: String) -> Option<Self> {
        word.parse().ok()
    }
}

impl Element for IpNet {
    fn read_list(item: &Item<'_>) -> Result<Vec<Self>, Error> {
        if item.value.as_str() == Some("all") {
            return Ok(vec![Ipv4Net::default().into(), Ipv6Net::default().into()]);
        }
        item.words()
    }

    fn print_list(list: &[Self], _: &Key) -> Option<String> {
        Some(print::texts(list))
    }
}

/// Returns the kind of a list of networks of clients, or of all.
pub(super) const fn networks() -> Kind {
    of_words("\"all\", a network such as \"10.0.0.0/8\" or \"fd00::/8\", an address")
}

/// Returns the kind of a list of networks of proxies. Its text does not suggest to trust all.
pub(super) const fn proxy_networks() -> Kind {
    of_words("a network such as \"10.0.0.0/8\" or \"fd00::/8\", an address")
}

const fn of_words(words: &'static str) -> Kind {
    Kind::Words { words, each: "", min: 1, max: 4096, read: network }
}

/// Reads a network whose host bits are zero; an address is a network of one. An IPv4-mapped network is the IPv4 network that it
/// means (RFC 4291 §2.5.5.2): addresses of clients are compared as IPv4.
pub(super) fn network(word: &str) -> Result<String, Refusal> {
    let address = || word.parse::<IpAddr>().map(IpNet::from);
    let network = word.parse::<IpNet>().or_else(|_| address());
    let network = unmapped(network.map_err(|_| Refusal::default())?);
    if network == network.trunc() {
        return Ok(network.to_string());
    }
    Err(Refusal::because(Reason {
        found: format!("network {network}, whose address has bits beyond the prefix"),
        expected: format!("{}, or a longer prefix", network.trunc()),
        nearest: None,
    }))
}

fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(mapped) = network else {
        return network;
    };
    let length = mapped.prefix_len().checked_sub(MAPPED_PREFIX);
    let address = mapped.addr().to_ipv4_mapped().zip(length);
    let plain = address.and_then(|(address, length)| Ipv4Net::new(address, length).ok());
    plain.map_or(network, IpNet::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_networks_are_those_of_ipv4() {
        for (word, expected) in [
            ("::ffff:127.0.0.0/104", "127.0.0.0/8"),
            ("::ffff:127.0.0.1", "127.0.0.1/32"),
            ("::ffff:7f00:1/128", "127.0.0.1/32"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            // These have more than mapped addresses, or none.
            ("::/0", "::/0"),
            ("::/80", "::/80"),
            ("::127.0.0.0/104", "::7f00:0/104"),
            ("2001:db8::ffff:0:0/96", "2001:db8::ffff:0:0/96"),
        ] {
            assert_eq!(network(word).unwrap(), expected, "{word}");
        }
        for word in ["::ffff:127.0.0.1/104", "::ffff:127.0.0.0/95"] {
            assert!(network(word).is_err(), "{word}");
        }
    }
}
