//! IP networks as values of keys.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::error::Error;
use crate::field::Element;
use crate::print;
use crate::schema::{Key, Reason, Refusal};
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
