//! What a connection waits for: one thing at every moment, and how long it waited for each.

use std::time::{Duration, Instant};

use super::metrics::{Label as _, labels};

labels! {
    /// Thing that a connection waits for. The names of qlog's reasons are those of qlog (draft-ietf-quic-qlog-quic-events).
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
        /// A turn of the worker, or room in its socket.
        Scheduling = "scheduling",
        /// Handlers: requests are open, and there is nothing to send.
        Application = "application",
        /// The client's next request.
        Client = "client",
        /// The end of the closing period (RFC 9000 §10.2).
        Closing = "closing",
    }
}

/// Account of a connection's time. The sum over all waits is the connection's age, exactly.
#[derive(Debug)]
pub struct Account {
    wait: Wait,
    since: Instant,
    spent: [Duration; Wait::ALL.len()],
}

impl Account {
    /// Begins an account.
    pub fn begin(wait: Wait, now: Instant) -> Self {
        Account { wait, since: now, spent: [Duration::ZERO; Wait::ALL.len()] }
    }

    /// Notes what is waited for from now on.
    pub fn enter(&mut self, wait: Wait, now: Instant) {
        if wait != self.wait {
            // A clock that stands still or goes back adds nothing, and takes nothing away.
            self.spent[self.wait.index()] += now.saturating_duration_since(self.since);
            self.since = self.since.max(now);
            self.wait = wait;
        }
    }

    /// Returns what is waited for, and since when.
    pub fn wait(&self) -> (Wait, Instant) {
        (self.wait, self.since)
    }

    /// Returns the time spent on each wait until `now`.
    pub fn spent(&self, now: Instant) -> impl Iterator<Item = (Wait, Duration)> {
        let until_now = now.saturating_duration_since(self.since);
        Wait::ALL.iter().zip(self.spent).map(move |(wait, spent)| {
            (*wait, spent + if *wait == self.wait { until_now } else { Duration::ZERO })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock;

    proptest! {
        /// Whatever a connection does, and if its clock stands still or goes back.
        #[test]
        fn sum_of_all_waits_is_the_age(
            steps in prop::collection::vec((0..Wait::ALL.len(), -5_000..1_000_000_i64), 0..50),
            more in 0..1_000_000_u64,
        ) {
            let begun = clock::now();
            let mut account = Account::begin(Wait::Handshake, begun);
            let (mut now, mut latest) = (begun, begun);
            for (wait, micros) in steps {
                now = if micros < 0 {
                    now - Duration::from_micros(micros.unsigned_abs())
                } else {
                    now + Duration::from_micros(micros.unsigned_abs())
                };
                latest = latest.max(now);
                let before = account.wait().0;
                account.enter(Wait::ALL[wait], now);
                if before == Wait::ALL[wait] {
                    latest = latest.max(account.wait().1);
                }
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
        let spent: Vec<_> =
            { account.spent(at(205)) }.filter(|(_, time)| !time.is_zero()).collect();
        let ms = Duration::from_millis;
        let expected =
            [(Wait::Handshake, ms(30)), (Wait::Congestion, ms(5)), (Wait::Client, ms(170))];
        assert_eq!(spent, expected);
        assert_eq!(account.wait(), (Wait::Client, at(105)));
    }

    #[test]
    fn account_is_small() {
        assert!(size_of::<Account>() <= 256);
    }
}
