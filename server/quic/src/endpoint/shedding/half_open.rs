//! Unfinished handshakes of a worker by the sources that they claim, and which of them gives way to a newcomer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use sluicegate_base::clients::SourcePrefix;

/// Time in which most clients finish a handshake to which the server has responded, in a round trip.
const FINISHING: Duration = Duration::from_millis(300);
/// Part of all unfinished handshakes that clients behind one address have in a flood alone: one in so many.
const FLOOD_PART: usize = 16;
/// Unfinished handshakes that clients behind one address may have however few there are in all.
const FLOOD_LEAST: usize = 4;

/// Unfinished handshakes.
#[derive(Debug, Default)]
pub(in crate::endpoint) struct HalfOpen {
    /// By number: the oldest first.
    all: BTreeMap<u64, Handshake>,
    /// Numbers of each source's.
    sources: HashMap<SourcePrefix, BTreeSet<u64>>,
    /// How many each source has, and its oldest one. The last is the source with most, and of several that with the oldest.
    order: BTreeSet<(usize, Reverse<u64>, SourcePrefix)>,
}

/// An unfinished handshake.
#[derive(Clone, Copy, Debug)]
struct Handshake {
    source: SourcePrefix,
    slot: usize,
    begun: Instant,
}

impl HalfOpen {
    /// Returns how many there are.
    pub(in crate::endpoint) fn len(&self) -> u64 {
        self.all.len() as u64
    }

    /// Adds the handshake of the connection with this number, which is larger than all before it.
    pub(in crate::endpoint) fn enter(
        &mut self,
        number: u64,
        source: SourcePrefix,
        slot: usize,
        now: Instant,
    ) {
        let handshake = Handshake { source, slot, begun: now };
        self.all.insert(number, handshake);
        self.change(source, |numbers| numbers.insert(number));
    }

    /// Removes a handshake that is finished, or whose connection has gone.
    pub(in crate::endpoint) fn leave(&mut self, number: u64) {
        if let Some(handshake) = self.all.remove(&number) {
            self.change(handshake.source, |numbers| numbers.remove(&number));
        }
    }

    /// Changes the numbers of a source.
    fn change(&mut self, source: SourcePrefix, change: impl FnOnce(&mut BTreeSet<u64>) -> bool) {
        let numbers = self.sources.entry(source).or_default();
        let place = |numbers: &BTreeSet<u64>| {
            let oldest = numbers.first()?;
            Some((numbers.len(), Reverse(*oldest), source))
        };
        let before = place(numbers);
        change(numbers);
        let after = place(numbers);
        if after.is_none() {
            self.sources.remove(&source);
        }
        if let Some(before) = before {
            self.order.remove(&before);
        }
        self.order.extend(after);
    }

    /// Returns the slot of the handshake that gives way to a newcomer: the oldest of the source that has most, if that is more than
    /// many clients behind one address would have, or else the oldest of all, if its client has had the time to finish it.
    pub(in crate::endpoint) fn giving_way(&self, now: Instant) -> Option<usize> {
        let (count, Reverse(number), _) = self.order.last()?;
        if *count >= (self.all.len() / FLOOD_PART).max(FLOOD_LEAST) {
            return self.all.get(number).map(|oldest| oldest.slot);
        }
        let (_, oldest) = self.all.first_key_value()?;
        let age = now.saturating_duration_since(oldest.begun);
        (age >= FINISHING).then_some(oldest.slot)
    }

    /// Checks that all tables agree.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub(in crate::endpoint) fn check(&self) {
        let numbers: usize = self.sources.values().map(BTreeSet::len).sum();
        assert_eq!(numbers, self.all.len());
        assert_eq!(self.order.len(), self.sources.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_base::address::UnvalidatedAddress;

    fn source(number: u8) -> SourcePrefix {
        let address = std::net::SocketAddr::from(([192, 0, 2, number], 5000));
        UnvalidatedAddress::from(address).into()
    }

    /// Returns the handshakes of these sources in this order; the slots count from 0, and a millisecond lies between two.
    fn begun(sources: &[u8], start: Instant) -> HalfOpen {
        let mut half_open = HalfOpen::default();
        for (slot, number) in sources.iter().enumerate() {
            let now = start + Duration::from_millis(slot as u64);
            half_open.enter(slot as u64 + 1, source(*number), slot, now);
            half_open.check();
        }
        half_open
    }

    #[test]
    fn the_oldest_of_the_source_with_most_gives_way_at_once() {
        let start = sluicegate_base::clock::now();
        let mut half_open = begun(&[1, 2, 3, 2, 3, 2, 3, 2, 3, 2], start);
        for (slot, number) in [(1, 2), (2, 3), (3, 4)] {
            assert_eq!(half_open.giving_way(start), Some(slot));
            half_open.leave(number);
            half_open.check();
        }
        assert_eq!(half_open.giving_way(start), None, "each has a few");
    }

    #[test]
    fn of_sources_with_one_each_the_oldest_gives_way_when_its_client_had_time() {
        let start = sluicegate_base::clock::now();
        let mut half_open = begun(&[4, 3, 2, 1], start);
        let late = start + FINISHING;
        assert_eq!(half_open.giving_way(late - Duration::from_millis(1)), None);
        assert_eq!(half_open.giving_way(late), Some(0));
        half_open.leave(1);
        assert_eq!(half_open.giving_way(late), None);
        assert_eq!(half_open.giving_way(late + Duration::from_millis(1)), Some(1));
    }

    /// Three handshakes of an office among a flood from everywhere.
    #[test]
    fn a_few_clients_behind_one_address_are_no_flood() {
        let start = sluicegate_base::clock::now();
        let mut sources: Vec<u8> = (0..100).collect();
        sources.extend([200, 200, 200]);
        let half_open = begun(&sources, start);
        assert_eq!(half_open.giving_way(start + FINISHING), Some(0));
    }

    #[test]
    fn tables_are_empty_when_all_have_left() {
        let mut half_open = begun(&[1, 2, 1], sluicegate_base::clock::now());
        for number in [3, 1, 2, 2] {
            half_open.leave(number);
            half_open.check();
        }
        assert_eq!(half_open.len(), 0);
        assert!(half_open.sources.is_empty() && half_open.order.is_empty());
    }
}
