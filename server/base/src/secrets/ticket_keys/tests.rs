//! Ticket keys in virtual time.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;

const HOUR: u64 = 3600;

thread_local! {
    /// Number of keys that this test has derived.
    pub(super) static DERIVED: Cell<u32> = const { Cell::new(0) };
}

/// A clock that tests set, in seconds since 1970.
#[derive(Clone)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn at(seconds: u64) -> Clock {
        Clock(Arc::new(AtomicU64::new(seconds)))
    }

    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }

    fn read(&self) -> impl Fn() -> Duration + Send + Sync + 'static + use<> {
        let clock = Arc::clone(&self.0);
        move || Duration::from_secs(clock.load(Ordering::Relaxed))
    }
}

/// Beginning of a period of an hour.
const START: u64 = 500_000 * HOUR;

fn hourly(keys: TicketKeys) -> TicketKeys {
    keys.set_lifetime(Duration::from_secs(HOUR));
    keys
}

fn kinds() -> Vec<(TicketKeys, Clock)> {
    let clocks = [Clock::at(START), Clock::at(START)];
    let roots = vec![RootSecret::new([7; 32])];
    let keys = [TicketKeys::random(clocks[0].read()), TicketKeys::shared(roots, clocks[1].read())];
    keys.into_iter().map(hourly).zip(clocks).collect()
}

#[test]
fn a_ticket_is_accepted_for_its_lifetime_and_refused_a_period_later() {
    for issued in [START, START + HOUR / 2, START + HOUR - 1] {
        for (keys, clock) in kinds() {
            clock.set(issued);
            let sealed = keys.sealing("main");
            for (later, expected) in [(0, true), (HOUR / 2, true), (HOUR, true), (2 * HOUR, false)]
            {
                clock.set(issued + later);
                let opened = keys.opening("main", &sealed.name);
                assert_eq!(opened.is_some(), expected, "{issued} {later}");
                if let Some(key) = opened {
                    assert_eq!((key.mac, key.cipher), (sealed.mac, sealed.cipher));
                }
            }
        }
    }
}

#[test]
fn each_period_has_a_key_of_its_own() {
    for (keys, clock) in kinds() {
        let first = keys.sealing("main");
        clock.set(START + HOUR - 1);
        assert_eq!(keys.sealing("main").name, first.name);
        clock.set(START + HOUR);
        let second = keys.sealing("main");
        assert!(first.name != second.name && first.mac != second.mac);
        assert!(keys.opening("main", &first.name).is_some());
    }
}

#[test]
fn a_ticket_of_another_listener_is_refused() {
    for (keys, _) in kinds() {
        let sealed = keys.sealing("main");
        assert!(keys.opening("other", &sealed.name).is_none());
        assert!(keys.opening("main", &sealed.name).is_some());
    }
}

#[test]
fn keys_of_an_instance_whose_clock_is_ahead_are_accepted() {
    let clocks = [Clock::at(START + HOUR - 10), Clock::at(START + HOUR + 10)];
    let [here, ahead] = clocks.each_ref().map(|clock| {
        let roots = vec![RootSecret::new([7; 32])];
        hourly(TicketKeys::shared(roots, clock.read()))
    });
    let sealed = ahead.sealing("main");
    assert!(here.opening("main", &sealed.name).is_some());
}

#[test]
fn tickets_of_an_older_root_secret_are_accepted() {
    let clock = Clock::at(START);
    let [old, new] = [[1; 32], [2; 32]].map(RootSecret::new);
    let before = hourly(TicketKeys::shared(vec![old.clone()], clock.read()));
    let after = hourly(TicketKeys::shared(vec![new.clone(), old], clock.read()));
    let sealed = before.sealing("main");
    assert!(after.opening("main", &sealed.name).is_some());
    let without = hourly(TicketKeys::shared(vec![new], clock.read()));
    assert!(without.opening("main", &sealed.name).is_none());
}

#[test]
fn each_ticket_costs_few_keys_however_many_roots_there_are() {
    let clock = Clock::at(START);
    let roots: Vec<_> = (0..16).map(|root| RootSecret::new([root; 32])).collect();
    let keys = hourly(TicketKeys::shared(roots, clock.read()));
    let sealed = keys.sealing("main");
    assert_eq!(DERIVED.take(), 1);
    assert!(keys.opening("main", &sealed.name).is_some());
    assert_eq!(DERIVED.take(), 1);
    // A name of no period costs nothing.
    let mut name = sealed.name;
    name[0] ^= 0x80;
    assert!(keys.opening("main", &name).is_none());
    assert_eq!(DERIVED.take(), 0);
}

#[test]
fn processes_with_one_seed_agree_for_ever() {
    let clock = Clock::at(START);
    let first = hourly(TicketKeys::random(clock.read()));
    let second = TicketKeys::parse(&first.text().unwrap(), clock.read()).unwrap();
    for period in [0, 1, 2, 50, 51] {
        clock.set(START + period * HOUR);
        let sealed = first.sealing("main");
        // The first one's seed moves on in each period, the second one's seldom.
        if period != 2 {
            assert!(second.opening("main", &sealed.name).is_some(), "{period}");
        }
    }
}

#[test]
fn a_seed_that_was_kept_opens_no_ticket_of_the_past() {
    let clock = Clock::at(START);
    let keys = hourly(TicketKeys::random(clock.read()));
    let sealed = keys.sealing("main");
    clock.set(START + 2 * HOUR);
    let stolen = TicketKeys::parse(&keys.text().unwrap(), clock.read()).unwrap();
    clock.set(START);
    let opened = stolen.opening("main", &sealed.name);
    assert!(opened.is_none());
}

#[test]
fn a_seed_of_the_distant_past_or_future_and_damage_are_not_used() {
    let clock = Clock::at(START);
    let keys = hourly(TicketKeys::random(clock.read()));
    let text = keys.text().unwrap();
    assert!(TicketKeys::parse(&text, clock.read()).is_some());
    for at in [START + 3 * HOUR, START - 3 * HOUR, 0] {
        assert!(TicketKeys::parse(&text, Clock::at(at).read()).is_none(), "{at}");
    }
    for damaged in ["", "1", "0 0 0", &text[..40], &format!("{text} more")] {
        assert!(TicketKeys::parse(damaged, clock.read()).is_none(), "{damaged}");
    }
}

#[test]
fn a_clock_that_jumps_stops_nothing() {
    for (keys, clock) in kinds() {
        for at in [START + 20_000_000 * HOUR, START, 0, u64::MAX / 2] {
            clock.set(at);
            let sealed = keys.sealing("main");
            assert!(keys.opening("main", &sealed.name).is_some(), "{at}");
        }
    }
}

#[test]
fn another_lifetime_begins_other_keys() {
    let clock = Clock::at(START);
    let keys = hourly(TicketKeys::random(clock.read()));
    let sealed = keys.sealing("main");
    keys.set_lifetime(Duration::from_secs(HOUR));
    assert!(keys.opening("main", &sealed.name).is_some(), "nothing changed");
    keys.set_lifetime(Duration::from_secs(60));
    assert!(keys.opening("main", &sealed.name).is_none());
    let sealed = keys.sealing("main");
    clock.set(START + 119);
    assert!(keys.opening("main", &sealed.name).is_some());
    clock.set(START + 120);
    assert!(keys.opening("main", &sealed.name).is_none());
}
