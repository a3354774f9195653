//! Counts what each client has open, and finds the client that has most.

pub mod places;
pub mod relief;
pub mod shared_room;

use std::collections::BTreeSet;
use std::collections::hash_map::{Entry, HashMap};
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::address::{UnvalidatedAddress, ValidatedAddress};

/// Time in which a client finishes its handshake and sends a request. After it, its connection gives way to that of a newcomer where there
/// is no room for both.
pub const FIRST_REQUEST: Duration = Duration::from_secs(3);
/// Time without a request after which an idle connection gives way.
pub const NEXT_REQUEST: Duration = Duration::from_secs(1);

/// Addresses that count as one client: an IPv4 address, or an IPv6 /56, which is what one customer of a provider gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientPrefix(Prefix);

/// The same of a datagram's source, which may be forged: it tells what is to be proved first, and holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePrefix(Prefix);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Prefix {
    V4(Ipv4Addr),
    V6([u8; 7]),
}

impl Prefix {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Prefix::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, ..] = address.octets();
                Prefix::V6([a, b, c, d, e, f, g])
            }
        }
    }
}

impl From<ValidatedAddress> for ClientPrefix {
    fn from(address: ValidatedAddress) -> Self {
        ClientPrefix(Prefix::of(address.ip()))
    }
}

impl From<UnvalidatedAddress> for SourcePrefix {
    fn from(address: UnvalidatedAddress) -> Self {
        SourcePrefix(Prefix::of(address.ip()))
    }
}

impl SourcePrefix {
    /// Returns the client that its sender claims to be, to count what they would hold together.
    pub fn claimed_client(self) -> ClientPrefix {
        ClientPrefix(self.0)
    }

    /// Returns the bytes in which all its addresses agree.
    pub fn octets(&self) -> Vec<u8> {
        match self.0 {
            Prefix::V4(address) => address.octets().to_vec(),
            Prefix::V6(prefix) => prefix.to_vec(),
        }
    }
}

/// Writes the address, or the network of an IPv6 client.
impl fmt::Display for ClientPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names an address that somebody may have forged.
impl fmt::Display for SourcePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (not validated)", self.0)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Prefix::V4(address) => address.fmt(f),
            Prefix::V6(prefix) => {
                let mut octets = [0; 16];
                octets[..prefix.len()].copy_from_slice(prefix);
                write!(f, "{}/56", Ipv6Addr::from(octets))
            }
        }
    }
}

/// Amounts by client: connections, exchanges, bytes. Clients with none have no entry. A change takes time logarithmic in the
/// number of clients, and so does the search for the client that has most. `P` names a client.
#[derive(Debug)]
pub struct Clients<P = ClientPrefix> {
    amounts: HashMap<P, u64>,
    order: BTreeSet<(u64, P)>,
}

impl<P> Default for Clients<P> {
    fn default() -> Self {
        Clients { amounts: HashMap::new(), order: BTreeSet::new() }
    }
}

impl<P: Copy + Ord + Hash> Clients<P> {
    /// Returns how much `client` has.
    pub fn open(&self, client: P) -> u64 {
        self.amounts.get(&client).copied().unwrap_or(0)
    }

    /// Returns the client that has most, and how much.
    pub fn most(&self) -> Option<(P, u64)> {
        self.order.last().map(|(amount, client)| (*client, *amount))
    }

    /// Sets what `client` has.
    pub fn set(&mut self, client: P, amount: u64) {
        self.change(client, |_| amount);
    }

    /// Adds to what `client` has, and returns how much that is.
    pub fn add(&mut self, client: P, more: u64) -> u64 {
        self.change(client, |amount| amount.saturating_add(more))
    }

    /// Subtracts from what `client` has.
    pub fn subtract(&mut self, client: P, less: u64) {
        self.change(client, |amount| amount.saturating_sub(less));
    }

    /// Sets what `client` has to what `to` returns for it, and returns that.
    fn change(&mut self, client: P, to: impl FnOnce(u64) -> u64) -> u64 {
        let (before, amount) = match self.amounts.entry(client) {
            Entry::Occupied(mut entry) => {
                let before = *entry.get();
                let amount = to(before);
                if amount > 0 {
                    entry.insert(amount);
                } else {
                    entry.remove();
                }
                (before, amount)
            }
            Entry::Vacant(entry) => {
                let amount = to(0);
                if amount > 0 {
                    entry.insert(amount);
                }
                (0, amount)
            }
        };
        if before != amount {
            if before > 0 {
                self.order.remove(&(before, client));
            }
            if amount > 0 {
                self.order.insert((amount, client));
            }
        }
        amount
    }

    /// Counts one that `client` has opened.
    pub fn enter(&mut self, client: P) {
        self.add(client, 1);
    }

    /// Counts one that had entered as gone.
    pub fn leave(&mut self, client: P) {
        self.subtract(client, 1);
    }

    /// Returns the number of clients with anything open.
    pub fn len(&self) -> usize {
        self.amounts.len()
    }

    /// Returns whether no client has anything open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ClientPrefix {
        address.parse::<ValidatedAddress>().unwrap().into()
    }

    #[test]
    fn a_client_is_an_address_or_the_first_56_bits_of_one() {
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_eq!(client("2001:db8:1:200::1"), client("2001:db8:1:2ff:ffff:ffff:ffff:ffff"));
        assert_ne!(client("2001:db8:1:200::1"), client("2001:db8:1:300::1"));
    }

    #[test]
    fn a_client_is_written_as_its_address_or_network() {
        assert_eq!(client("::ffff:192.0.2.1").to_string(), "192.0.2.1");
        assert_eq!(client("2001:db8:1:2ff::1").to_string(), "2001:db8:1:200::/56");
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

    #[test]
    fn the_client_that_has_most_is_that_of_a_search_whatever_changes() {
        let mut clients = Clients::default();
        let mut expected = HashMap::new();
        let mut random: u64 = 1;
        for _ in 0..10_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let [host, amount, ..] = random.to_be_bytes();
            let client = ClientPrefix(Prefix::V4([192, 0, 2, host % 16].into()));
            let amount = u64::from(amount / 4);
            let held = expected.entry(client).or_insert(0_u64);
            if random & (1 << 40) > 0 {
                assert_eq!(clients.add(client, amount), *held + amount);
                *held += amount;
            } else {
                clients.subtract(client, amount);
                *held = held.saturating_sub(amount);
            }
            assert_eq!(clients.open(client), *held);
            expected.retain(|_, held| *held > 0);
            let most = expected.values().max().copied();
            assert_eq!(clients.most().map(|(_, amount)| amount), most);
            assert_eq!(clients.len(), expected.len());
        }
        assert_eq!(clients.order.len(), clients.amounts.len());
    }
}
