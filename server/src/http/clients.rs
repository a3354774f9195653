//! Counts what each client has open: connections, exchanges.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// Addresses that count as one client: an IPv4 address, or an IPv6 /56, which is what one customer of a provider gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientPrefix {
    V4(Ipv4Addr),
    V6([u8; 7]),
}

impl From<IpAddr> for ClientPrefix {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => ClientPrefix::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, ..] = address.octets();
                ClientPrefix::V6([a, b, c, d, e, f, g])
            }
        }
    }
}

/// Numbers of open things by client; clients with none have no entry.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    open: HashMap<ClientPrefix, u64>,
}

impl Clients {
    /// Returns how many `client` has open.
    pub(crate) fn open(&self, client: ClientPrefix) -> u64 {
        self.open.get(&client).copied().unwrap_or(0)
    }

    /// Returns the client that has the most open, and how many; looks at all clients.
    pub(crate) fn most(&self) -> Option<(ClientPrefix, u64)> {
        let most = self.open.iter().max_by_key(|(_, open)| **open);
        most.map(|(client, open)| (*client, *open))
    }

    /// Counts one that `client` has opened.
    pub(crate) fn enter(&mut self, client: ClientPrefix) {
        *self.open.entry(client).or_default() += 1;
    }

    /// Counts one that had entered as gone.
    pub(crate) fn leave(&mut self, client: ClientPrefix) {
        match self.open.get_mut(&client) {
            Some(open) if *open > 1 => *open -= 1,
            _ => {
                self.open.remove(&client);
            }
        }
    }

    /// Returns the number of clients with anything open.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ClientPrefix {
        address.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn a_client_is_an_address_or_the_first_56_bits_of_one() {
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_eq!(
            client("2001:db8:1:200::1"),
            client("2001:db8:1:2ff:ffff:ffff:ffff:ffff")
        );
        assert_ne!(client("2001:db8:1:200::1"), client("2001:db8:1:300::1"));
    }

    #[test]
    fn a_client_with_nothing_open_has_no_entry() {
        let (one, other) = (client("192.0.2.1"), client("2001:db8::1"));
        let mut clients = Clients::default();
        for who in [one, other, one] {
            clients.enter(who);
        }
        assert_eq!((clients.open(one), clients.open(other)), (2, 1));
        assert_eq!(clients.most(), Some((one, 2)));
        clients.leave(one);
        clients.leave(other);
        assert_eq!((clients.open(one), clients.open(other)), (1, 0));
        assert_eq!(clients.len(), 1);
        clients.leave(one);
        assert_eq!(clients.len(), 0);
    }
}
