//! Account of a request, which leaves to its connection what it waits for while its response is blocked.

use std::time::{Duration, Instant};

use super::{AccountMark, OF_CONNECTION, Wait, nanos};
use crate::observe::metrics::{Figure, Label as _, Labels, Page};
use crate::observe::sum::Sum;

/// Waits whose times stand in the account itself: most requests have no more.
const FEW: usize = 2;

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestWait {
    /// Something of its own.
    Own(Wait),
    /// Whatever its connection waits for, because a part of its response is ready to be sent.
    Connection,
}

/// Account of a request's time. The sum over all waits is the time since the request came, exactly.
#[derive(Debug)]
pub struct RequestAccount {
    wait: RequestWait,
    begun: Instant,
    /// Nanoseconds from the beginning to that of the current wait.
    since: u64,
    few: [(Wait, u64); FEW],
    more: Option<Box<More>>,
}

/// Times of a request that has waited for its connection, or for many things.
#[derive(Debug)]
struct More {
    /// Account of the connection when the request began to wait for it.
    mark: AccountMark,
    /// Nanoseconds.
    spent: [u64; Wait::ALL.len()],
}

/// Time spent on each wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTimes([u64; Wait::ALL.len()]);

/// Sums over requests of the time spent on each wait, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitSums([u64; Wait::ALL.len()]);

impl WaitSums {
    /// Adds those of a request.
    pub fn record(&mut self, times: &WaitTimes) {
        for (sum, nanos) in self.0.iter_mut().zip(times.0) {
            *sum += nanos / 1000;
        }
    }

    /// Returns the time of a wait.
    pub fn of(&self, wait: Wait) -> Duration {
        Duration::from_micros(self.0[wait.index()])
    }
}

impl Sum for WaitSums {
    fn add_up(&mut self, more: &Self) {
        self.0.add_up(&more.0);
    }
}

/// Writes a sample for each wait, in seconds.
impl Figure for WaitSums {
    fn samples(&self, labels: &Labels<'_>, own: &[&'static str], page: &mut Page) {
        for wait in Wait::ALL {
            let mut labels = labels.clone();
            labels.extend(own.iter().map(|name| (*name, wait.name())));
            page.sample(&labels, self.of(*wait).as_secs_f64());
        }
    }
}

impl WaitTimes {
    /// Returns the waits that took time, in the order of [`Wait`].
    pub fn iter(&self) -> impl Iterator<Item = (Wait, Duration)> {
        let all = Wait::ALL.iter().copied().zip(self.0.map(Duration::from_nanos));
        all.filter(|(_, time)| !time.is_zero())
    }

    /// Returns the wait that took the most time; `None` if none took any.
    pub fn longest(&self) -> Option<(Wait, Duration)> {
        self.iter().max_by_key(|(_, time)| *time)
    }
}

impl RequestAccount {
    /// Begins an account.
    pub fn begin(wait: Wait, now: Instant) -> RequestAccount {
        RequestAccount {
            wait: RequestWait::Own(wait),
            begun: now,
            since: 0,
            few: [(wait, 0); FEW],
            more: None,
        }
    }

    /// Returns when the request came.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// Returns the current wait.
    pub fn wait(&self) -> RequestWait {
        self.wait
    }

    /// Returns what it waits for, and for how long. `connection` is the current wait of its connection, and its length so far.
    pub fn current(&self, now: Instant, connection: (Wait, Duration)) -> (Wait, Duration) {
        let time = Duration::from_nanos(nanos(self.begun, now).saturating_sub(self.since));
        match self.wait {
            RequestWait::Own(wait) => (wait, time),
            // It may have waited for other things of its connection before.
            RequestWait::Connection => (connection.0, time.min(connection.1)),
        }
    }

    /// Sets the current wait, which begins now. `connection` is the account of its connection.
    pub fn enter(&mut self, wait: RequestWait, now: Instant, connection: &AccountMark) {
        if wait == self.wait {
            return;
        }
        self.close(now, connection);
        self.wait = wait;
        if wait == RequestWait::Connection {
            self.more().mark = *connection;
        }
    }

    /// Returns the time spent on each wait until `now`.
    pub fn spent(&self, now: Instant, connection: &AccountMark) -> WaitTimes {
        let mut spent = [0; Wait::ALL.len()];
        for (wait, nanos) in self.few {
            spent[wait.index()] += nanos;
        }
        if let Some(more) = &self.more {
            for (sum, nanos) in spent.iter_mut().zip(more.spent) {
                *sum += nanos;
            }
        }
        let time = nanos(self.begun, now).saturating_sub(self.since);
        match self.wait {
            RequestWait::Own(wait) => spent[wait.index()] += time,
            RequestWait::Connection => {
                let mark = self.more.as_ref().map_or(*connection, |more| more.mark);
                share(&mut spent, time, &mark, connection);
            }
        }
        WaitTimes(spent)
    }

    /// Adds the time spent on each wait until `now` to sums, as [`WaitSums::record`] does for [`RequestAccount::spent`]. `connection`
    /// returns the account of the connection at that time; most requests do not need it.
    pub fn add_to(
        &self,
        sums: &mut WaitSums,
        now: Instant,
        connection: impl FnOnce() -> AccountMark,
    ) {
        let (RequestWait::Own(wait), None) = (self.wait, &self.more) else {
            return sums.record(&self.spent(now, &connection()));
        };
        let mut current = nanos(self.begun, now).saturating_sub(self.since);
        for (of, mut spent) in self.few {
            if of == wait {
                spent += std::mem::take(&mut current);
            }
            sums.0[of.index()] += spent / 1000;
        }
        sums.0[wait.index()] += current / 1000;
    }

    /// Adds the time of the current wait.
    fn close(&mut self, now: Instant, connection: &AccountMark) {
        let until = nanos(self.begun, now);
        let time = until.saturating_sub(self.since);
        if time == 0 {
            return;
        }
        self.since = until;
        let RequestWait::Own(wait) = self.wait else {
            let more = self.more();
            let mark = more.mark;
            return share(&mut more.spent, time, &mark, connection);
        };
        // A wait without time leaves its place to others.
        let place = self.few.iter_mut().find(|(other, spent)| *other == wait || *spent == 0);
        match place {
            Some((of, spent)) => {
                *of = wait;
                *spent += time;
            }
            None => self.more().spent[wait.index()] += time,
        }
    }

    fn more(&mut self) -> &mut More {
        self.more.get_or_insert_with(|| {
            Box::new(More { mark: AccountMark::default(), spent: [0; Wait::ALL.len()] })
        })
    }
}

/// Shares a time among the waits of a connection between two moments. What its account has more or less than that, because it learns
/// of a turn's delay later, counts for the wait that has the most.
fn share(spent: &mut [u64; Wait::ALL.len()], time: u64, from: &AccountMark, to: &AccountMark) {
    let mut parts = [0; OF_CONNECTION];
    for ((part, from), to) in parts.iter_mut().zip(from.0).zip(to.0) {
        *part = to.saturating_sub(from);
    }
    let mut left = time;
    let mut largest = 0;
    for (index, part) in parts.into_iter().enumerate() {
        if part > parts[largest] {
            largest = index;
        }
        let counted = part.min(left);
        left -= counted;
        spent[index] += counted;
    }
    spent[largest] += left;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Account;
    use super::*;
    use crate::clock;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn wait() -> impl Strategy<Value = RequestWait> {
        prop_oneof![
            3 => (0..Wait::ALL.len()).prop_map(|index| RequestWait::Own(Wait::ALL[index])),
            1 => Just(RequestWait::Connection),
        ]
    }

    proptest! {
        /// Time is counted once, whatever the request and its connection wait for.
        #[test]
        fn sum_of_all_waits_is_the_time_since_the_request_came(
            steps in prop::collection::vec((wait(), 0..OF_CONNECTION, 0..1_000_000_u64, 0..2_000_u64), 0..50),
        ) {
            let begun = clock::now();
            let mut now = begun;
            let mut connection = Account::begin(Wait::Handshake, begun);
            let mut request = RequestAccount::begin(Wait::File, begun);
            for (wait, of_connection, nanos, late) in steps {
                now += Duration::from_nanos(nanos);
                // A connection notes that it was queued only when its turn comes.
                let from = now.checked_sub(Duration::from_nanos(late)).unwrap_or(now).max(begun);
                connection.enter(Wait::ALL[of_connection], from);
                request.enter(wait, now, &connection.at(now));
                prop_assert_eq!(request.wait(), wait);
            }
            let end = now + ms(3);
            let spent = request.spent(end, &connection.at(end));
            let sum: Duration = spent.iter().map(|(_, time)| time).sum();
            prop_assert_eq!(sum, end - begun);
            let (mut recorded, mut added) = (WaitSums::default(), WaitSums::default());
            recorded.record(&spent);
            request.add_to(&mut added, end, || connection.at(end));
            prop_assert_eq!(recorded, added);
        }
    }

    #[test]
    fn a_blocked_response_waits_for_what_its_connection_waits_for() {
        let begun = clock::now();
        let mut connection = Account::begin(Wait::Client, begun);
        let mut request = RequestAccount::begin(Wait::UpstreamResponse, begun);
        let at = |time| begun + ms(time);
        connection.enter(Wait::Application, at(0));
        request.enter(RequestWait::Connection, at(100), &connection.at(at(100)));
        connection.enter(Wait::Congestion, at(100));
        connection.enter(Wait::Pacing, at(130));
        assert_eq!(request.current(at(133), (Wait::Pacing, ms(3))), (Wait::Pacing, ms(3)));
        assert_eq!(request.current(at(133), (Wait::Pacing, ms(90))), (Wait::Pacing, ms(33)));
        connection.enter(Wait::Congestion, at(135));
        request.enter(RequestWait::Own(Wait::UpstreamBody), at(160), &connection.at(at(160)));
        connection.enter(Wait::Application, at(160));
        let spent = request.spent(at(200), &connection.at(at(200)));
        assert_eq!(spent.longest(), Some((Wait::UpstreamResponse, ms(100))));
        let spent: Vec<_> = spent.iter().collect();
        let expected = [
            (Wait::Congestion, ms(55)),
            (Wait::Pacing, ms(5)),
            (Wait::UpstreamResponse, ms(100)),
            (Wait::UpstreamBody, ms(40)),
        ];
        assert_eq!(spent, expected);
        assert_eq!(request.wait(), RequestWait::Own(Wait::UpstreamBody));
        let current = request.current(at(200), (Wait::Application, ms(1)));
        assert_eq!(current, (Wait::UpstreamBody, ms(40)));
    }

    #[test]
    fn most_requests_need_no_further_memory() {
        let begun = clock::now();
        let none = AccountMark::default();
        let mut request = RequestAccount::begin(Wait::UpstreamConnect, begun);
        for (wait, time) in
            [(Wait::UpstreamResponse, 10), (Wait::UpstreamBody, 20), (Wait::UpstreamBody, 30)]
        {
            request.enter(RequestWait::Own(wait), begun + ms(time), &none);
        }
        assert!(request.more.is_none());
        request.enter(RequestWait::Own(Wait::Tunnel), begun + ms(40), &none);
        let sum: Duration = request.spent(begun + ms(45), &none).iter().map(|(_, time)| time).sum();
        assert_eq!(sum, ms(45));
        assert!(size_of::<RequestAccount>() <= 80, "{}", size_of::<RequestAccount>());
    }
}
