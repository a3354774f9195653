//! Resolves the host name of an upstream.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::super::counters::Tally;
use super::resolver;

/// Largest number of addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;
/// Longest time after which addresses are looked up again. Name servers are asked less often if their records say so, but
/// a change of /etc/hosts shows.
const VALID: Duration = Duration::from_secs(10);
/// Shortest time after which addresses are looked up again.
const LEAST_VALID: Duration = Duration::from_secs(1);

/// Longest time for which a connection waits for other addresses than those that have failed.
const PATIENCE: Duration = Duration::from_millis(250);

/// Host name and port of an upstream, `host:port`, with the addresses that were found last.
///
/// A lookup takes as long as name servers take. So at most one runs, everybody who waits shares it, and connections use the
/// addresses found before until it ends. They stay in use if it finds none. Only if all of them have failed does a connection
/// wait for other ones, and no longer than [`PATIENCE`].
#[derive(Debug)]
pub(in crate::proxy) struct HostName {
    host: String,
    port: u16,
    /// Name servers to ask; none for those of the system.
    servers: Vec<SocketAddr>,
    /// Whether the host is an address itself.
    literal: bool,
    tally: Rc<Tally>,
    found: RefCell<Vec<SocketAddr>>,
    /// Connections so far: each begins with the next address, so that all addresses are used.
    turn: Cell<usize>,
    valid_until: Cell<Option<Instant>>,
    /// Whether all addresses have failed, so that the next connection waits for a lookup, if not for long.
    doubted: Cell<bool>,
    running: Cell<bool>,
    ended: Notify,
}

impl HostName {
    /// Returns the name of a server, `host:port`, which these name servers know; without any, those of the system.
    pub(super) fn new(text: &str, servers: &[SocketAddr], tally: &Rc<Tally>) -> Rc<HostName> {
        let literal = text.parse().ok();
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        Rc::new(HostName {
            host: host.to_owned(),
            port: port.parse().unwrap_or_default(),
            servers: servers.to_vec(),
            literal: literal.is_some(),
            tally: Rc::clone(tally),
            found: RefCell::new(literal.into_iter().collect()),
            turn: Cell::new(0),
            valid_until: Cell::new(None),
            doubted: Cell::new(false),
            running: Cell::new(false),
            ended: Notify::new(),
        })
    }

    /// Returns the addresses in the order in which a connection tries them; none if the name has none.
    pub(super) async fn addresses(self: &Rc<HostName>) -> Vec<SocketAddr> {
        let valid = |until| Instant::now() < until;
        if !self.literal && !self.valid_until.get().is_some_and(valid) {
            let ended = self.ended.notified();
            if !self.running.replace(true) {
                tokio::task::spawn_local(Rc::clone(self).look_up());
            }
            let is_known = !self.found.borrow().is_empty();
            if !is_known {
                ended.await;
            } else if self.doubted.get() {
                // Those that have failed may be back.
                let _ = timeout(PATIENCE, ended).await;
            }
        }
        let mut addresses = self.found.borrow().clone();
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        if let Some(first) = turn.checked_rem(addresses.len()) {
            addresses.rotate_left(first);
        }
        addresses
    }

    /// Notes that no address could be reached: they may have changed.
    pub(super) fn doubt(&self) {
        self.doubted.set(true);
        self.valid_until.set(None);
    }

    /// Notes that an address was reached: connections need not wait for a lookup.
    pub(super) fn trust(&self) {
        self.doubted.set(false);
    }

    /// Looks the name up. A lookup that finds nothing leaves the addresses as they were.
    async fn look_up(self: Rc<HostName>) {
        self.tally.count(|c| c.lookups += 1);
        let found = resolver::look_up(&self.host, &self.servers, self.doubted.get()).await;
        let addresses = found.addresses.into_iter().map(|ip| SocketAddr::new(ip, self.port));
        // Alternately, so that a name with many addresses of one family keeps some of the other.
        let mut addresses = alternately(addresses.collect());
        addresses.truncate(MAX_ADDRESSES);
        if addresses.is_empty() {
            self.tally.count(|c| c.lookups_failed += 1);
        } else {
            self.found.replace(addresses);
            let valid = found.valid.clamp(LEAST_VALID, VALID);
            self.valid_until.set(Some(Instant::now() + valid));
        }
        self.doubted.set(false);
        self.running.set(false);
        self.ended.notify_waiters();
    }
}

/// Returns the addresses so that families alternate as long as there are both (RFC 8305 §4).
pub(super) fn alternately(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (one, other): (Vec<_>, Vec<_>) =
        addresses.iter().partition(|address| address.is_ipv4() == first);
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    let pairs = std::iter::repeat_with(|| [one.next(), other.next()]);
    let pairs = pairs.take(addresses.len());
    pairs.flatten().flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::tests::run;

    fn lookups(name: &HostName) -> u64 {
        name.tally.totals().lookups
    }

    #[test]
    fn an_address_is_never_looked_up() {
        run(async {
            let name = HostName::new("[::1]:80", &[], &Rc::default());
            name.doubt();
            assert_eq!(name.addresses().await, ["[::1]:80".parse().unwrap()]);
            assert_eq!(lookups(&name), 0);
        });
    }

    #[test]
    fn all_who_wait_share_one_lookup() {
        run(async {
            let name = HostName::new("localhost:80", &[], &Rc::default());
            let sorted = async || {
                let mut addresses = name.addresses().await;
                addresses.sort();
                addresses
            };
            let (one, two) = tokio::join!(sorted(), sorted());
            assert!(!one.is_empty());
            assert_eq!(one, two);
            assert_eq!(sorted().await, one);
            assert_eq!(lookups(&name), 1);
            name.doubt();
            assert_eq!(sorted().await, one);
            assert_eq!(lookups(&name), 2);
        });
    }

    #[test]
    fn each_connection_begins_with_the_next_address() {
        run(async {
            let name = HostName::new("app.invalid:80", &[], &Rc::default());
            let all = ["192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80"];
            *name.found.borrow_mut() = all.map(|address| address.parse().unwrap()).to_vec();
            name.valid_until.set(Some(Instant::now() + VALID));
            let mut firsts = Vec::new();
            for _ in 0..6 {
                let addresses = name.addresses().await;
                assert_eq!(addresses.len(), 3, "the others follow");
                firsts.push(addresses[0].to_string());
            }
            assert_eq!(firsts, [all, all].concat());
        });
    }

    #[test]
    fn old_addresses_serve_while_new_ones_are_sought() {
        run(async {
            let name = HostName::new("a..b:80", &[], &Rc::default());
            assert!(name.addresses().await.is_empty());
            let old: SocketAddr = "192.0.2.1:80".parse().unwrap();
            *name.found.borrow_mut() = vec![old];
            // At once, and after a lookup that finds nothing.
            assert_eq!(name.addresses().await, [old]);
            assert!(name.running.get());
            name.doubt();
            assert_eq!(name.addresses().await, [old]);
            assert!(!name.running.get());
            name.doubt();
            name.trust();
            assert_eq!(name.addresses().await, [old]);
            assert!(name.running.get(), "without a wait for the lookup");
        });
    }

    #[test]
    fn families_alternate_and_no_address_is_left_out() {
        let order = |addresses: &[&str]| {
            let addresses = addresses.iter().map(|address| address.parse().unwrap());
            let ordered = alternately(addresses.collect()).into_iter();
            let ports: Vec<_> = ordered.map(|address| address.port()).collect();
            ports
        };
        let [a, b, c] = ["192.0.2.1:1", "192.0.2.2:2", "192.0.2.3:3"];
        let [x, y] = ["[2001:db8::1]:11", "[2001:db8::2]:12"];
        assert_eq!(order(&[a, b, x]), [1, 11, 2]);
        assert_eq!(order(&[x, y, a, b, c]), [11, 1, 12, 2, 3]);
        assert_eq!(order(&[b, c, x, y, a]), [2, 11, 3, 12, 1]);
        assert_eq!(order(&[y, x]), [12, 11]);
        assert!(order(&[]).is_empty());
    }
}
