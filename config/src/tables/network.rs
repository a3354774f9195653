//! IP networks as values of keys.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::error::Error;
use crate::field::Element;
use crate::print;
use crate::schema::{Key, Kind, Reason, Refusal};
use crate::value::{Item, Word};

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
    Kind::Words {
        words,
        each: "",
        min: 1,
        max: 4096,
        read: network,
    }
}

/// Reads a network whose host bits are zero; an address is a network of one.
pub(super) fn network(word: &str) -> Result<String, Refusal> {
    let address = || word.parse::<IpAddr>().map(IpNet::from);
    let network = word.parse::<IpNet>().or_else(|_| address());
    let network = network.map_err(|_| Refusal::default())?;
    if network == network.trunc() {
        return Ok(network.to_string());
    }
    Err(Refusal::because(Reason {
        found: format!("network {network}, whose address has bits beyond the prefix"),
        expected: format!("{}, or a longer prefix", network.trunc()),
        nearest: None,
    }))
}
