//! Order of the checks of passwords that wait, and which of them give way.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use quick_cache::unsync::Cache;
use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio::time::Instant;

use sluicegate_base::clients::{ClientPrefix, Clients};

/// Credentials that are being verified or wait for it, in the whole process.
pub(super) const PENDING: usize = 256;
/// The same for one client.
pub(super) const PENDING_OF_CLIENT: u64 = 4;
/// Checks that wait in the order of their arrival. With more, the latest goes first: its client still waits for it.
const IN_ORDER: usize = 16;
/// Refused guesses after which the checks of a client stand behind those of others, and again after as many.
const GUESSES: u32 = 4;
/// Time for which refused guesses count after the last one.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Clients whose refused guesses are remembered.
const CLIENTS: usize = 8192;

/// Standing of a check: those with a lower rank go first. It grows with what the client has waiting, and with its refused guesses.
type Rank = u32;

/// Checks that wait or run. Whoever has least waiting and guessed least goes first, whatever the others do.
pub(super) struct Turns<T> {
    /// Hashes that may begin at once.
    free: usize,
    /// Number of the place taken last.
    last: u64,
    clients: Clients,
    places: HashMap<u64, (ClientPrefix, Rank)>,
    queue: BTreeMap<(Rank, u64), Sender<T>>,
    guesses: Cache<ClientPrefix, Guesses>,
}

/// Refused guesses of a client.
#[derive(Clone, Copy, Debug)]
struct Guesses {
    count: u32,
    last: Instant,
}

/// Turn of a check.
#[derive(Debug)]
pub(super) enum Turn<T> {
    /// It may begin.
    Now,
    /// It waits; the receiver fails if it gives way to another one.
    Later(Receiver<T>),
    /// It gave way to another one.
    Never,
}

impl<T> Turns<T> {
    /// Returns the order of checks of which `free` may run at a time.
    pub(super) fn new(free: usize) -> Turns<T> {
        Turns {
            free,
            last: 0,
            clients: Clients::default(),
            places: HashMap::new(),
            queue: BTreeMap::new(),
            guesses: Cache::new(CLIENTS),
        }
    }

    /// Returns the number of a place for a check of a client. If all are taken, a check that stands no better than this one gives way.
    /// `None` if the client has as many as it may, or if all others stand better.
    pub(super) fn enter(&mut self, client: ClientPrefix, now: Instant) -> Option<u64> {
        let own = self.clients.open(client);
        if own >= PENDING_OF_CLIENT {
            return None;
        }
        let rank = self.guesses_of(client, now) / GUESSES + u32::try_from(own).unwrap_or(Rank::MAX);
        if self.places.len() >= PENDING && !self.make_room(rank) {
            return None;
        }
        self.last += 1;
        self.clients.enter(client);
        self.places.insert(self.last, (client, rank));
        Some(self.last)
    }

    /// Frees a place, unless its check gave way.
    pub(super) fn leave(&mut self, number: u64) {
        if let Some((client, rank)) = self.places.remove(&number) {
            self.clients.leave(client);
            self.queue.remove(&(rank, number));
        }
    }

    /// Returns whether the check of a place may begin, or waits from now on.
    pub(super) fn wait(&mut self, number: u64) -> Turn<T> {
        let Some((_, rank)) = self.places.get(&number) else {
            return Turn::Never;
        };
        if self.free > 0 {
            self.free -= 1;
            return Turn::Now;
        }
        let (sender, turn) = oneshot::channel();
        self.queue.insert((*rank, number), sender);
        Turn::Later(turn)
    }

    /// Takes the check whose turn it is, or notes that another one may begin at once.
    pub(super) fn next(&mut self) -> Option<Sender<T>> {
        let Some((&(rank, first), _)) = self.queue.first_key_value() else {
            self.free += 1;
            return None;
        };
        let latest = self.queue.range((rank, 0)..=(rank, u64::MAX)).next_back();
        let key = match latest {
            Some((latest, _)) if self.queue.len() > IN_ORDER => *latest,
            _ => (rank, first),
        };
        self.queue.remove(&key)
    }

    /// Notes the result of a client's check.
    pub(super) fn on_result(&mut self, client: ClientPrefix, accepted: bool, now: Instant) {
        if accepted {
            self.guesses.remove(&client);
            return;
        }
        let count = self.guesses_of(client, now).saturating_add(1);
        self.guesses.insert(client, Guesses { count, last: now });
    }

    /// Returns the number of checks that wait or run.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the hashes that may begin at once.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free
    }

    /// Takes a hash that may begin at once.
    #[cfg(test)]
    pub(super) fn take_free(&mut self) {
        self.free -= 1;
    }

    fn guesses_of(&self, client: ClientPrefix, now: Instant) -> u32 {
        let guesses = self.guesses.peek(&client);
        let recent = guesses.filter(|g| now.saturating_duration_since(g.last) < REMEMBERED);
        recent.map_or(0, |guesses| guesses.count)
    }

    /// Has the check give way that has waited longest of those that stand worst. Returns `false` if all stand better than `rank`.
    fn make_room(&mut self, rank: Rank) -> bool {
        let worst = self.queue.last_key_value().map(|((worst, _), _)| *worst);
        let Some(worst) = worst.filter(|worst| *worst >= rank) else {
            return false;
        };
        let oldest = self.queue.range((worst, 0)..).next();
        let number = oldest.map(|((_, number), _)| *number);
        number.map(|number| self.leave(number)).is_some()
    }
}

/// Shows no clients.
impl<T> fmt::Debug for Turns<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use sluicegate_base::address::ValidatedAddress;

    fn client(number: u32) -> ClientPrefix {
        ValidatedAddress::from(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))).into()
    }

    /// Has a check of a client wait. Returns its receiver, if it has a place.
    fn wait(turns: &mut Turns<u32>, number: u32, now: Instant) -> Option<Receiver<u32>> {
        let place = turns.enter(client(number), now)?;
        match turns.wait(place) {
            Turn::Later(turn) => Some(turn),
            turn => panic!("{turn:?}"),
        }
    }

    /// Lets checks begin until one of `turn` does. Returns how many began before it.
    fn before(turns: &mut Turns<u32>, turn: &mut Receiver<u32>) -> usize {
        let mut count = 0;
        while turn.try_recv().is_err() {
            let _ = turns.next().unwrap().send(0);
            count += 1;
        }
        count - 1
    }

    #[test]
    fn few_checks_begin_in_the_order_of_their_arrival() {
        let (mut turns, now) = (Turns::new(0), Instant::now());
        let mut waiting: Vec<_> = (0..10).map(|n| wait(&mut turns, n, now).unwrap()).collect();
        for turn in &mut waiting {
            assert_eq!(before(&mut turns, turn), 0);
        }
        assert!(turns.next().is_none());
        assert_eq!(turns.free(), 1);
    }

    #[test]
    fn guesses_of_many_clients_at_once_leave_a_first_login_its_turn() {
        for each in [1, 4] {
            let (mut turns, now) = (Turns::new(0), Instant::now());
            let guesses: Vec<_> = (0..280 / each)
                .flat_map(|n| (0..each).map(move |_| n))
                .filter_map(|n| wait(&mut turns, n, now))
                .collect();
            assert_eq!(turns.len(), PENDING);
            let mut login = wait(&mut turns, 1000, now).expect("a place");
            assert_eq!(turns.len(), PENDING);
            assert_eq!(before(&mut turns, &mut login), 0, "{each} of each client");
            drop(guesses);
        }
    }

    #[test]
    fn clients_that_have_guessed_stand_behind_all_others_for_a_minute() {
        let (mut turns, now) = (Turns::new(0), Instant::now());
        for _ in 0..GUESSES {
            turns.on_result(client(1), false, now);
        }
        let mut guess = wait(&mut turns, 1, now).unwrap();
        let mut login = wait(&mut turns, 2, now).unwrap();
        assert_eq!(before(&mut turns, &mut login), 0);
        assert_eq!(before(&mut turns, &mut guess), 0);
        // A valid password, or a minute, and all is forgotten.
        turns.on_result(client(1), true, now);
        assert_eq!(turns.guesses_of(client(1), now), 0);
        turns.on_result(client(1), false, now);
        assert_eq!(turns.guesses_of(client(1), now + REMEMBERED), 0);
    }

    #[test]
    fn a_client_has_a_turn_before_another_one_has_its_second() {
        let (mut turns, now) = (Turns::new(0), Instant::now());
        let mut greedy: Vec<_> = (0..4).map(|_| wait(&mut turns, 1, now).unwrap()).collect();
        assert!(turns.enter(client(1), now).is_none());
        let mut other = wait(&mut turns, 2, now).unwrap();
        assert_eq!(before(&mut turns, &mut greedy[0]), 0);
        assert_eq!(before(&mut turns, &mut other), 0);
        assert_eq!(before(&mut turns, &mut greedy[1]), 0);
    }

    #[test]
    fn guessers_displace_nobody_who_has_not_guessed() {
        let (mut turns, now) = (Turns::new(0), Instant::now());
        let logins: Vec<_> = (0..256).map(|n| wait(&mut turns, n, now).unwrap()).collect();
        for _ in 0..GUESSES {
            turns.on_result(client(1000), false, now);
        }
        assert!(turns.enter(client(1000), now).is_none());
        assert_eq!(turns.len(), logins.len());
    }
}
