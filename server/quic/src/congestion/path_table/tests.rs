use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

const LIFETIME: Duration = Duration::from_secs(3600);
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn capacity(cwnd: u64) -> PathCapacity {
    PathCapacity { cwnd, min_rtt: Duration::from_millis(600) }
}

fn observed(cwnd: u64) -> Observation {
    Observation { capacity: capacity(cwnd), is_least: false }
}

/// Returns the address of a client that is validated.
fn client(text: &str) -> AwaitedAddress {
    let address = AwaitedAddress::default();
    address.set(text.parse().unwrap());
    address
}

/// A table in a time of the test's own.
struct Bench {
    table: Arc<PathTable>,
    events: Arc<Resumptions>,
    now: Instant,
}

impl Bench {
    fn new(clients: u64) -> Bench {
        let bench = Bench {
            table: Arc::new(PathTable::new(clients, LIFETIME)),
            events: Arc::default(),
            now: sluicegate_base::clock::now(),
        };
        quiche::clock::set(Some(bench.now));
        bench
    }

    fn path(&self, text: &str) -> Box<dyn PathMemory> {
        self.table.path(HERE, &client(text), &self.events)
    }

    /// Saves a capacity for connections that come later.
    fn leave(&self, text: &str, cwnd: u64) {
        let path = self.path(text);
        path.save(observed(cwnd));
        path.release();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        quiche::clock::set(Some(self.now));
    }

    fn len(&self) -> usize {
        let sets = self.table.sets.iter().map(|set| set.lock().unwrap());
        sets.map(|set| set.iter().flatten().count()).sum()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        quiche::clock::set(None);
    }
}

#[test]
fn a_client_is_an_ipv4_address_or_an_ipv6_56_at_an_address_of_the_server() {
    let bench = Bench::new(1000);
    bench.leave("192.0.2.1", 1);
    bench.leave("2001:db8:1:200::1", 2);
    for (address, expected) in [
        ("192.0.2.1", Some(1)),
        ("::ffff:192.0.2.1", Some(1)),
        ("192.0.2.2", None),
        ("2001:db8:1:2ff::7", Some(2)),
        ("2001:db8:1:300::1", None),
    ] {
        let path = bench.path(address);
        let found = path.claim().map(|capacity| capacity.cwnd);
        assert_eq!(found, expected, "{address}");
        path.release();
    }
    let elsewhere = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let other = bench.table.path(elsewhere, &client("192.0.2.1"), &bench.events);
    assert_eq!(other.claim(), None);
}

#[test]
fn who_has_not_proved_an_address_claims_nothing_and_leaves_nothing() {
    let bench = Bench::new(1000);
    bench.leave("192.0.2.1", 1);
    let awaited = AwaitedAddress::default();
    let path = bench.table.path(HERE, &awaited, &bench.events);
    assert_eq!(path.claim(), None);
    path.save(observed(2));
    path.discard();
    path.release();
    assert_eq!(bench.path("192.0.2.1").claim(), Some(capacity(1)));
    bench.path("192.0.2.1").release();
    let found = bench.path("192.0.2.1");
    assert_eq!(found.claim(), None, "in use");
    awaited.set("192.0.2.2".parse().unwrap());
    path.save(observed(3));
    path.release();
    assert_eq!(bench.path("192.0.2.2").claim(), Some(capacity(3)));
    assert_eq!(bench.len(), 2);
}

#[test]
fn one_connection_at_a_time_has_a_capacity() {
    let bench = Bench::new(1000);
    let [first, second] = ["192.0.2.1"; 2].map(|address| bench.path(address));
    first.save(observed(1));
    assert_eq!(second.claim(), None, "the first one fills the path");
    first.release();
    assert_eq!(first.claim(), Some(capacity(1)));
    assert_eq!(second.claim(), None);
    // What it observes meanwhile is for those after it.
    second.save(observed(2));
    second.release();
    assert_eq!(second.claim(), None);
    first.release();
    assert_eq!(second.claim(), Some(capacity(2)));
    second.discard();
    assert_eq!(first.claim(), None);
    assert_eq!(bench.len(), 0);
}

#[test]
fn a_capacity_that_is_too_old_is_deleted() {
    let mut bench = Bench::new(1000);
    bench.leave("192.0.2.1", 1);
    let path = bench.path("192.0.2.1");
    bench.pass(LIFETIME);
    assert_eq!(path.claim(), Some(capacity(1)));
    path.release();
    bench.pass(Duration::from_nanos(1));
    assert_eq!(path.claim(), None);
    assert_eq!(bench.len(), 0);
}

#[test]
fn slow_start_replaces_a_larger_capacity_only_when_that_is_too_old() {
    let mut bench = Bench::new(1000);
    let leave_least = |bench: &Bench, cwnd| {
        let path = bench.path("192.0.2.1");
        path.save(Observation { is_least: true, ..observed(cwnd) });
        assert_eq!(bench.path("192.0.2.1").claim(), None, "in use");
        path.release();
    };
    let left = |bench: &Bench| {
        let path = bench.path("192.0.2.1");
        let found = path.claim();
        path.release();
        found
    };
    bench.leave("192.0.2.1", 8);
    bench.pass(LIFETIME);
    leave_least(&bench, 7);
    assert_eq!(left(&bench), Some(capacity(8)));
    bench.pass(Duration::from_nanos(1));
    leave_least(&bench, 7);
    assert_eq!(left(&bench), Some(capacity(7)));
    leave_least(&bench, 9);
    assert_eq!(left(&bench), Some(capacity(9)));
}

#[test]
fn a_million_clients_take_no_more_memory_than_the_table() {
    const CLIENTS: u64 = 4096;
    let mut bench = Bench::new(CLIENTS);
    for number in 0..1_000_000 {
        let address = IpAddr::from(Ipv4Addr::from_bits(number)).to_string();
        // One of ten connections still uses what it has saved.
        if number % 10 == 0 {
            bench.path(&address).save(observed(u64::from(number)));
        } else {
            bench.leave(&address, u64::from(number));
        }
        bench.pass(Duration::from_nanos(1));
    }
    let len = bench.len() as u64;
    assert!((CLIENTS - CLIENTS / 8..=CLIENTS).contains(&len), "{len}");
    // The last ones are there, and the first ones are not.
    let last = IpAddr::from(Ipv4Addr::from_bits(999_999)).to_string();
    assert_eq!(bench.path(&last).claim(), Some(capacity(999_999)));
    assert_eq!(bench.path("0.0.0.1").claim(), None);
    assert!(size_of::<Set>() <= WAYS * 64);
}

#[test]
fn threads_share_a_capacity() {
    let bench = Bench::new(8);
    bench.leave("192.0.2.1", 1);
    let paths: Vec<_> = (0..4).map(|_| bench.path("192.0.2.1")).collect();
    let claim = |path: Box<dyn PathMemory>| path.claim().is_some();
    let had: usize = std::thread::scope(|scope| {
        let threads: Vec<_> =
            paths.into_iter().map(|path| scope.spawn(move || claim(path))).collect();
        let had = threads.into_iter().map(|thread| thread.join().unwrap());
        had.map(usize::from).sum()
    });
    assert_eq!(had, 1);
}

#[test]
fn events_are_counted() {
    let bench = Bench::new(8);
    let path = bench.path("192.0.2.1");
    path.on_event(ResumeEvent::Jumped);
    path.on_event(ResumeEvent::Retreated);
    path.on_event(ResumeEvent::Jumped);
    let totals = bench.events.totals();
    let found = [Resumption::Jumped, Resumption::Validated, Resumption::Retreated];
    assert_eq!(found.map(|event| totals[event]), [2, 0, 1]);
}
