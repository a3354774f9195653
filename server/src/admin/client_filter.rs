//! The parameter `client`: clients by their addresses.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use sluicegate_base::observe::connections::ClientFilter;

/// Reads the parameter.
///
/// # Errors
/// The text says what is expected.
pub(super) fn client(value: &str) -> Result<ClientFilter, String> {
    let with_port = value.parse::<SocketAddr>().ok();
    let with_port = with_port.map(|address| (IpNet::from(address.ip()), Some(address.port())));
    let address = || value.trim_matches(['[', ']']).parse::<IpAddr>().ok().map(IpNet::from);
    let network = || value.parse().ok();
    let found = with_port.or_else(|| Some((address().or_else(network)?, None)));
    found.map(|(network, port)| ClientFilter::new(network, port)).ok_or_else(|| {
        format!(
            "`client` is `{value}`; expected an IP address, with a port or without, such as 192.0.2.1 or [2001:db8::1]:50000, or a network \
             such as 192.0.2.0/24\n"
        )
    })
}
