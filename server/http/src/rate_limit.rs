//! Limits of the rate at which each client sends requests: the generic cell rate algorithm (ITU-T I.371), in a table of bounded size
//! that all threads share.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sluicegate_base::address::ValidatedAddress;

/// Clients whose slots are searched together, under one lock.
const WAYS: usize = 8;

/// Limit of the rate of each client's requests.
///
/// A client that has no slot has its whole burst. If its set is full, the client that has been idle longest gives way, and
/// begins with its whole burst when it returns.
#[derive(Debug)]
pub struct RateLimit {
    /// Time in which a client gets one request back.
    interval: Duration,
    /// Time in which a client gets all requests of a burst back but one.
    tolerance: Duration,
    /// Keyed hash of clients: nobody can choose addresses that share a set.
    hash: RandomState,
    sets: Box<[Mutex<Set>]>,
}

type Set = [Option<Slot>; WAYS];

/// Count of a client.
#[derive(Clone, Copy, Debug)]
struct Slot {
    client: u64,
    /// Time from which on the client has its whole burst again.
    full: Instant,
}

impl RateLimit {
    /// Returns a limit that has counted no request.
    pub fn new(settings: &sluicegate_config::RateLimit) -> RateLimit {
        let nanos = settings.rate.unit.as_nanos() / u128::from(settings.rate.count);
        let interval = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let rest = u32::try_from(settings.burst() - 1).unwrap_or(u32::MAX);
        let sets = settings.clients.div_ceil(WAYS as u64);
        RateLimit {
            interval,
            tolerance: interval.saturating_mul(rest),
            hash: RandomState::new(),
            sets: (0..sets).map(|_| Mutex::default()).collect(),
        }
    }

    /// Counts a request of a client.
    ///
    /// # Errors
    /// The client has used up its burst; the error is the time until its next request is admitted. The request does not count.
    pub fn count(&self, client: ValidatedAddress, now: Instant) -> Result<(), Duration> {
        let client = key(client);
        // Another thread that panicked has ended the process.
        let mut set = self.set(client).lock().unwrap_or_else(PoisonError::into_inner);
        let full = |slot: &Option<Slot>| slot.map(|slot| slot.full);
        let is_own = |slot: &Slot| slot.client == client;
        let own = set.iter().position(|slot| slot.as_ref().is_some_and(is_own));
        let idle_longest = (0..WAYS).min_by_key(|at| full(&set[*at]));
        let slot = &mut set[own.or(idle_longest).unwrap_or(0)];
        // Threads read the clock at different times, so `now` may be earlier than the last one.
        let before = full(slot).filter(|_| own.is_some());
        let full = before.map_or(now, |full| full.max(now));
        let wait = full.duration_since(now).saturating_sub(self.tolerance);
        if !wait.is_zero() {
            return Err(wait);
        }
        *slot = Some(Slot { client, full: full + self.interval });
        Ok(())
    }

    fn set(&self, client: u64) -> &Mutex<Set> {
        let sets = self.sets.len() as u64;
        let place = self.hash.hash_one(client) % sets;
        &self.sets[usize::try_from(place).unwrap_or(0)]
    }
}

/// Returns the number of a client: that of an IPv4 address or of an IPv6 /64. The IPv6 networks with the numbers of IPv4
/// addresses, ::/32, are reserved.
fn key(client: ValidatedAddress) -> u64 {
    match client.ip().to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => u64::try_from(address.to_bits() >> 64).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use sluicegate_base::clock;

    fn limit(settings: &str) -> RateLimit {
        let text = format!(
            "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n\
             [[route]]\npath = \"/\"\nfixed = {{}}\nrate_limit = {{ {settings} }}\n"
        );
        let registry = sluicegate_cc::Registry::builtin();
        let config = sluicegate_config::Config::from_toml("test.toml", &text, &registry).unwrap();
        RateLimit::new(config.routes[0].settings().rate_limit.given().unwrap())
    }

    fn client(text: &str) -> ValidatedAddress {
        text.parse().unwrap()
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_burst_is_admitted_at_once_and_comes_back_at_the_rate() {
        let (limit, one) = (limit("rate = \"10/s\", burst = 3"), client("192.0.2.1"));
        let start = clock::now();
        for _ in 0..3 {
            assert_eq!(limit.count(one, start), Ok(()));
        }
        assert_eq!(limit.count(one, start), Err(100 * MS));
        assert_eq!(limit.count(one, start + 99 * MS), Err(MS));
        assert_eq!(limit.count(one, start + 100 * MS), Ok(()));
        assert_eq!(limit.count(one, start + 100 * MS), Err(100 * MS));
        // After a pause, the burst is not larger than before.
        let later = start + Duration::from_secs(60);
        for _ in 0..3 {
            assert_eq!(limit.count(one, later), Ok(()));
        }
        assert_eq!(limit.count(one, later), Err(100 * MS));
        // A thread whose clock is behind.
        assert_eq!(limit.count(one, later - MS), Err(101 * MS));
    }

    #[test]
    fn in_the_long_run_a_client_gets_the_rate_and_refused_requests_do_not_count() {
        for (rate, seconds, admitted) in [("7/s", 60, 426), ("7/m", 3600, 426), ("7/h", 3600, 13)] {
            let (limit, one) = (limit(&format!("rate = \"{rate}\"")), client("192.0.2.1"));
            let start = clock::now();
            let times = (0..seconds * 100_u32).map(|step| start + step * 10 * MS);
            let count = times.filter(|now| limit.count(one, *now).is_ok()).count();
            assert_eq!(count, admitted, "{rate}");
        }
    }

    #[test]
    fn a_burst_of_one_spreads_requests_evenly() {
        let (limit, one) = (limit("rate = \"2/s\", burst = 1"), client("192.0.2.1"));
        let start = clock::now();
        assert_eq!(limit.count(one, start), Ok(()));
        assert_eq!(limit.count(one, start + 400 * MS), Err(100 * MS));
        assert_eq!(limit.count(one, start + 500 * MS), Ok(()));
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_an_ipv6_64() {
        let limit = limit("rate = \"1/h\"");
        let now = clock::now();
        for (address, is_admitted) in [
            ("192.0.2.1", true),
            ("192.0.2.2", true),
            ("::ffff:192.0.2.1", false),
            ("2001:db8::1", true),
            ("2001:db8::ffff:0:0:1", false),
            ("2001:db8:0:1::1", true),
        ] {
            let counted = limit.count(client(address), now);
            assert_eq!(counted.is_ok(), is_admitted, "{address}");
        }
    }

    #[test]
    fn a_full_table_forgets_the_client_that_is_idle_longest() {
        let limit = limit("rate = \"1/h\", clients = 1024");
        assert_eq!(limit.sets.len(), 128);
        let start = clock::now();
        // All of one set.
        let place = |client: &ValidatedAddress| std::ptr::from_ref(limit.set(key(*client)));
        let first = client("10.0.0.0");
        let addresses =
            (0_u32..).map(|number| IpAddr::from(Ipv4Addr::from_bits((10 << 24) + number)).into());
        let same = addresses.filter(|address| place(address) == place(&first));
        let same: Vec<ValidatedAddress> = same.take(WAYS + 1).collect();
        for (at, client) in (0_u32..).zip(&same[..WAYS]) {
            assert_eq!(limit.count(*client, start + at * MS), Ok(()));
        }
        let now = start + 100 * MS;
        for client in &same[..WAYS] {
            assert!(limit.count(*client, now).is_err(), "{client}");
        }
        assert_eq!(limit.count(same[WAYS], now), Ok(()));
        assert!(limit.count(same[1], now).is_err());
        assert_eq!(limit.count(same[0], now), Ok(()));
        // Whoever came last has taken the place of the second one.
        assert!(limit.count(same[WAYS], now).is_err());
        assert_eq!(limit.count(same[1], now), Ok(()));
    }

    #[test]
    fn threads_count_together() {
        let (limit, one) = (limit("rate = \"100/h\""), client("192.0.2.1"));
        let now = clock::now();
        let run = || (0..100).filter(|_| limit.count(one, now).is_ok()).count();
        let admitted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(admitted, 100);
    }
}
