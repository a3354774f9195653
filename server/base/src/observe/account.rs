//! What a connection or request waits for: one wait at every moment, and the time of each.

mod request;

use std::time::{Duration, Instant};

use super::metrics::{Figure, Label as _, Labels, Page, labels};
use super::sum::Sum;
use crate::clock;

pub use self::request::{RequestAccount, RequestWait, WaitSums, WaitTimes};

/// Number of the first waits, which are those of connections. A request has all of them.
const OF_CONNECTION: usize = 11;

labels! {
    /// Thing that a connection or request waits for. The names of qlog's reasons are those of qlog
    /// (draft-ietf-quic-qlog-quic-events).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Wait {
        /// The handshake.
        Handshake = "handshake",
        /// Proof of the client's address, as long as the server has sent it all that it may (RFC 9000 §8.1).
        Amplification = "amplification_protection",
        /// Room in the congestion window.
        Congestion = "congestion_control",
        /// The time at which pacing lets the next packet leave.
        Pacing = "pacing",
        /// The client's flow control of the connection.
        ConnectionFlow = "connection_flow_control",
        /// The client's flow control of streams.
        StreamFlow = "stream_flow_control",
        /// Acknowledgements: all data was sent, or more of it may not be held for the client.
        Acknowledgement = "acknowledgement",
        /// A turn of the worker, or room in its socket.
        Scheduling = "scheduling",
        /// Open requests of which none has anything to send: their handlers, or the rest of their bodies. Of a request: a handler of
        /// another kind than those below.
        Application = "application",
        /// The client's next request.
        Client = "client",
        /// The end of the closing period (RFC 9000 §10.2).
        Closing = "closing",
        /// The rest of the request's body, from the client.
        RequestBody = "request_body",
        /// The check of a password.
        Authentication = "authentication",
        /// A file, from the disk.
        File = "file",
        /// A place among the requests of an upstream.
        Queue = "queue",
        /// A connection to an upstream.
        UpstreamConnect = "upstream_connect",
        /// The head of an upstream's response.
        UpstreamResponse = "upstream_response",
        /// The rest of an upstream's response.
        UpstreamBody = "upstream_body",
        /// The other end of a tunnel.
        Tunnel = "tunnel",
    }
}

impl Wait {
    /// Returns what it means for an operator.
    pub fn meaning(self) -> &'static str {
        match self {
            Wait::Handshake => "the handshake is not complete: the client has to reply",
            Wait::Amplification => {
                "the client has not proved its address, so no more may be sent to it (RFC 9000 §8.1)"
            }
            Wait::Congestion => {
                "the congestion window is full: the network, or a window that is too small for it, is the limit"
            }
            Wait::Pacing => {
                "the next packet leaves when its time comes: the congestion controller's rate is the limit"
            }
            Wait::ConnectionFlow => {
                "the client takes no more data on the connection: it does not read, or its window is small"
            }
            Wait::StreamFlow => {
                "the client takes no more data on its streams: it does not read, or its windows are small"
            }
            Wait::Acknowledgement => {
                "all was sent, or as much as may be held for the client: its acknowledgements are awaited"
            }
            Wait::Scheduling => {
                "the worker is busy, or its socket is full: see sluicegate_turn_seconds"
            }
            Wait::Application => {
                "requests are open, and nothing is there to send: an upstream, a disk, the rest of an upload or the other end of \
                 a tunnel is awaited"
            }
            Wait::Client => "nothing is open: the client's next request is awaited",
            Wait::Closing => "the connection is closed",
            Wait::RequestBody => "the client has not sent the rest of the request's body",
            Wait::Authentication => "the password is being checked",
            Wait::File => "a file is read from the disk",
            Wait::Queue => "the upstream has as many requests as it may have: a place is awaited",
            Wait::UpstreamConnect => "a connection to the upstream is being opened",
            Wait::UpstreamResponse => "the upstream has not begun its response",
            Wait::UpstreamBody => "the upstream has not sent the rest of its response",
            Wait::Tunnel => "the tunnel's other end has sent nothing",
        }
    }

    /// Returns whether nothing is to be done: the client may be in no hurry.
    fn is_idle(self) -> bool {
        matches!(self, Wait::Client | Wait::Closing)
    }

    /// Returns its place among the waits of connections.
    fn of_connection(self) -> usize {
        debug_assert!(self.index() < OF_CONNECTION, "{self:?} is a wait of requests");
        self.index().min(OF_CONNECTION - 1)
    }
}

/// Account of a connection's time. The sum over all waits is the connection's age, exactly.
#[derive(Clone, Debug)]
pub struct Account {
    wait: Wait,
    since: Instant,
    /// Time since which it has waited for anything but its client; `None` while it waits for that.
    busy_since: Option<Instant>,
    /// Nanoseconds.
    spent: [u64; OF_CONNECTION],
}

/// Account of a connection at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountMark([u64; OF_CONNECTION]);

impl Account {
    /// Begins an account.
    pub fn begin(wait: Wait, now: Instant) -> Self {
        let busy_since = (!wait.is_idle()).then_some(now);
        Account { wait, since: now, busy_since, spent: [0; OF_CONNECTION] }
    }

    /// Sets the current wait, which began at `from`: never before the current one did.
    pub fn enter(&mut self, wait: Wait, from: Instant) {
        if wait != self.wait {
            self.spent[self.wait.of_connection()] += nanos(self.since, from);
            self.since = self.since.max(from);
            self.wait = wait;
            if wait.is_idle() {
                self.busy_since = None;
            } else if self.busy_since.is_none() {
                self.busy_since = Some(self.since);
            }
        }
    }

    /// Begins the current wait again at `at`, and the time for which it has waited for anything but its client: it got what there was.
    pub fn note_progress(&mut self, at: Instant) {
        self.spent[self.wait.of_connection()] += nanos(self.since, at);
        self.since = self.since.max(at);
        if self.busy_since.is_some() {
            self.busy_since = Some(self.since);
        }
    }

    /// Returns the current wait, and when it began.
    pub fn wait(&self) -> (Wait, Instant) {
        (self.wait, self.since)
    }

    /// Returns for how long it has waited for anything but its client, whatever it was, since it began to or since progress.
    pub fn busy(&self, now: Instant) -> Duration {
        self.busy_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Returns the time since it began, until `now`.
    pub fn age(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.at(now).0.iter().sum())
    }

    /// Returns what it is at `now`.
    pub fn at(&self, now: Instant) -> AccountMark {
        let mut spent = self.spent;
        spent[self.wait.of_connection()] += nanos(self.since, now);
        AccountMark(spent)
    }

    /// Returns the time spent on each wait until `now`.
    pub fn spent(&self, now: Instant) -> impl Iterator<Item = (Wait, Duration)> {
        Wait::ALL.iter().copied().zip(self.at(now).0.map(Duration::from_nanos))
    }
}

/// Sums over connections of the time spent on each wait, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionWaitSums([u64; OF_CONNECTION]);

impl ConnectionWaitSums {
    /// Adds the times of a connection until `now`.
    pub fn record(&mut self, account: &Account, now: Instant) {
        for (sum, nanos) in self.0.iter_mut().zip(account.at(now).0) {
            *sum += nanos / 1000;
        }
    }

    /// Returns the time of each wait.
    pub fn times(&self) -> impl Iterator<Item = (Wait, Duration)> {
        Wait::ALL.iter().copied().zip(self.0.map(Duration::from_micros))
    }
}

impl Sum for ConnectionWaitSums {
    fn add_up(&mut self, more: &Self) {
        self.0.add_up(&more.0);
    }
}

/// Writes a sample for each wait, in seconds.
impl Figure for ConnectionWaitSums {
    fn samples(&self, labels: &Labels<'_>, own: &[&'static str], page: &mut Page) {
        for (wait, time) in self.times() {
            let mut labels = labels.clone();
            labels.extend(own.iter().map(|name| (*name, wait.name())));
            page.sample(&labels, time.as_secs_f64());
        }
    }
}

/// Returns the nanoseconds from one time to another, of which 584 years have room.
fn nanos(from: Instant, to: Instant) -> u64 {
    u64::try_from(clock::between(from, to).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Steps of a clock, which may stand still or go back, µs.
    fn step() -> impl Strategy<Value = i64> {
        prop_oneof![1 => Just(0_i64), 1 => -5_000..0_i64, 8 => 1..1_000_000_i64]
    }

    proptest! {
        /// Time is counted once, whatever the waits are and if the clock stands still or goes back.
        #[test]
        fn sum_of_all_waits_is_the_age(
            steps in prop::collection::vec((0..OF_CONNECTION, step()), 0..50),
            more in 0..1_000_000_u64,
        ) {
            let begun = clock::now();
            let mut account = Account::begin(Wait::Handshake, begun);
            let (mut now, mut latest) = (begun, begun);
            for (wait, micros) in steps {
                let moved = Duration::from_micros(micros.unsigned_abs());
                now = if micros < 0 { now - moved } else { now + moved };
                latest = latest.max(now);
                account.enter(Wait::ALL[wait], now);
                prop_assert_eq!(account.wait().0, Wait::ALL[wait]);
            }
            let end = latest + Duration::from_micros(more);
            let sum: Duration = account.spent(end).map(|(_, spent)| spent).sum();
            prop_assert_eq!(sum, end - begun);
        }
    }

    #[test]
    fn time_counts_for_what_was_waited_for() {
        let begun = clock::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut account = Account::begin(Wait::Handshake, begun);
        account.enter(Wait::Client, at(30));
        account.enter(Wait::Client, at(40));
        account.enter(Wait::Congestion, at(100));
        account.enter(Wait::Client, at(105));
        let spent: Vec<_> = account.spent(at(205)).filter(|(_, time)| !time.is_zero()).collect();
        let ms = Duration::from_millis;
        let expected =
            [(Wait::Handshake, ms(30)), (Wait::Congestion, ms(5)), (Wait::Client, ms(170))];
        assert_eq!(spent, expected);
        assert_eq!(account.wait(), (Wait::Client, at(105)));
        assert_eq!(account.busy(at(205)), Duration::ZERO);
        account.note_progress(at(206));
        assert_eq!(account.busy(at(208)), Duration::ZERO);
        account.enter(Wait::Pacing, at(210));
        account.enter(Wait::Congestion, at(215));
        assert_eq!(account.busy(at(230)), ms(20));
        account.note_progress(at(250));
        assert_eq!(account.wait(), (Wait::Congestion, at(250)));
        assert_eq!((account.busy(at(260)), account.age(at(260))), (ms(10), ms(260)));
    }

    #[test]
    fn account_is_small() {
        assert!(size_of::<Account>() <= 256);
    }
}
