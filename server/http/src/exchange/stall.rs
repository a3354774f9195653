//! The rule that clients must make progress: how long a request may wait for its client.
//!
//! A request may wait for `limits.client_timeout`. Bytes that move win time back, one second for each `limits.client_min_rate` of
//! them, so a byte now and then keeps no request for ever. Time won is saved for a few timeouts: clients report that they have
//! read only when half of their window is empty, and a player at 300 kbit/s empties half of a window of 6 MiB in 80 seconds. On
//! average a client must move the minimum rate all the same.
//!
//! A request that waits for other responses of its connection waits for nobody, as long as the client acknowledges the minimum
//! rate for each request that waits so. Below it, a fifth of the time counts: otherwise a packet acknowledged now and then would
//! keep all requests of a connection for ever. Over a slow link whose responses go one after the other, the last may wait for
//! five timeouts before its first byte.
//!
//! So 128 requests of a connection can be kept by 6 kB/s, 48 bytes per second for each, and not for less. That is on purpose what a
//! modem of 56 kbit/s gives: whether its user opens as many images at a time or an attacker holds as many responses, the
//! acknowledgements look the same. What the attacker gets for it is bounded elsewhere: by the memory of the connection and by the
//! accounts, in which the client that holds the most gives way. The minimum rate for each request alone would need 31 kB/s, and
//! would end honest responses that share a slow link.
//!
//! Apache's mod_reqtimeout (MinRate) works alike; the default rate is that of IIS and Kestrel.

use std::time::Duration;

use sluicegate_config::Limits;

/// Longest time for which the rest of a body that nobody needs is read and dropped: clients exist that read no response before they have
/// sent their body.
pub const LINGERING: Duration = Duration::from_secs(15);
/// Most bytes of it.
pub const LINGERING_BYTES: usize = 32 << 20;
/// Checks within `client_timeout`; a request that stalls is ended at most one check late.
const CHECKS: u32 = 8;
/// Shortest time between two checks.
const SHORTEST: Duration = Duration::from_millis(100);
/// Most time that a request saves up, in timeouts.
const SAVED: i64 = 4;
/// On a slow connection, one second in so many counts.
const SLOWLY: i64 = 5;

/// Bounds on a request's wait for its client.
#[derive(Clone, Copy, Debug)]
pub struct StallRule {
    timeout: Duration,
    /// Bytes that win back a second; with 0, one byte wins back all.
    min_rate: u64,
}

/// Party that a request waits for at the time of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// There is nothing to send, and the handler asks for nothing: a long poll, an idle stream of events.
    Handler,
    /// Bytes wait for the congestion window, pacing or other responses.
    Server,
    /// The receive window of the connection is full of what handlers have not read, so the client cannot send.
    Window,
    /// As for the server, while the client acknowledges less than the minimum rate for each request that waits so.
    SlowLink,
    /// Flow control or missing acknowledgements of the client stop the response, or the handler has read all that arrived of
    /// the body.
    Client,
}

/// Time that one request has waited for its client.
#[derive(Debug, Default)]
pub struct StallTimer {
    /// Whether the request has waited for its client at a check since it last waited for its handler.
    running: bool,
    /// Time waited, without the time won back, ms; below zero if time was saved.
    waited: i64,
    /// Bytes that had moved at the last check, in both directions.
    moved: u64,
}

impl StallRule {
    /// Returns the rule of a configuration; `None` if it sets no limit.
    pub fn of(limits: &Limits) -> Option<StallRule> {
        (!limits.client_timeout.is_zero()).then_some(StallRule {
            timeout: limits.client_timeout,
            min_rate: limits.client_min_rate,
        })
    }

    /// Returns the time from one check to the next.
    pub fn interval(&self) -> Duration {
        (self.timeout / CHECKS).max(SHORTEST)
    }

    /// Returns the time that a check accounts for. A process that was suspended blames no client for it.
    pub fn accountable(&self, elapsed: Duration) -> Duration {
        elapsed.min(self.interval() * 2)
    }

    /// Returns whether a request has waited for so long that it is ended.
    pub fn is_over(&self, waited: Duration) -> bool {
        waited >= self.timeout
    }

    /// Returns the time that so many bytes win back.
    pub fn worth(&self, bytes: u64) -> Duration {
        if bytes == 0 {
            return Duration::ZERO;
        }
        let millis = bytes.saturating_mul(1000).checked_div(self.min_rate);
        millis.map_or(Duration::MAX, Duration::from_millis)
    }
}

/// Progress of a connection since the last check.
#[derive(Clone, Copy, Debug)]
pub struct LinkProgress {
    /// Time that the bytes which the client has acknowledged win back.
    moved: Duration,
    /// Time since the last check.
    elapsed: Duration,
}

impl LinkProgress {
    /// Returns the progress by the bytes that the client has acknowledged within `elapsed`; `None` if it owed nothing.
    pub fn new(rule: &StallRule, acknowledged: Option<u64>, elapsed: Duration) -> LinkProgress {
        LinkProgress {
            moved: acknowledged.map_or(Duration::MAX, |bytes| rule.worth(bytes)),
            elapsed,
        }
    }

    /// Returns the party that `in_line` requests wait for whose responses could be sent.
    pub fn blames(&self, in_line: usize) -> WaitsFor {
        let count = u32::try_from(in_line).unwrap_or(u32::MAX);
        if self.moved < self.elapsed {
            WaitsFor::Client
        } else if self.moved < self.elapsed.saturating_mul(count) {
            WaitsFor::SlowLink
        } else {
            WaitsFor::Server
        }
    }
}

impl StallTimer {
    /// Accounts for the time since the last check, after which `moved` bytes have moved in all. Returns whether the request has
    /// stalled: never before it has waited for its client for the whole time.
    pub fn check(
        &mut self,
        rule: &StallRule,
        waits_for: WaitsFor,
        moved: u64,
        elapsed: Duration,
    ) -> bool {
        let more = moved.saturating_sub(std::mem::replace(&mut self.moved, moved));
        let counted = match waits_for {
            WaitsFor::Client => millis(elapsed),
            WaitsFor::SlowLink => millis(elapsed) / SLOWLY,
            WaitsFor::Server | WaitsFor::Window | WaitsFor::Handler => 0,
        };
        if self.running {
            self.waited = self.waited.saturating_add(counted);
        }
        let timeout = millis(rule.timeout);
        let won = self.waited.saturating_sub(millis(rule.worth(more)));
        self.waited = won.max(timeout.saturating_mul(-SAVED));
        match waits_for {
            WaitsFor::Client | WaitsFor::SlowLink => self.running = true,
            WaitsFor::Server | WaitsFor::Window => {}
            WaitsFor::Handler => {
                self.running = false;
                self.waited = self.waited.min(0);
            }
        }
        counted > 0 && self.waited >= timeout
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: StallRule = StallRule { timeout: Duration::from_secs(60), min_rate: 240 };
    /// Bytes that win back the time from one check to the next.
    const ENOUGH: u64 = 1800;

    /// Returns the time in which a request stalls that waits for a party at each check, and has moved bytes since the check
    /// before; `None` if it lives for a day.
    fn stalls(moves: impl Fn(u32) -> (WaitsFor, u64)) -> Option<Duration> {
        let (mut timer, mut moved, step) = (StallTimer::default(), 0, RULE.interval());
        (1..=11_520).find_map(|check| {
            let (waits_for, more) = moves(check);
            moved += more;
            let stalled = timer.check(&RULE, waits_for, moved, step);
            stalled.then(|| step * check)
        })
    }

    #[test]
    fn a_silent_client_has_the_whole_time_and_at_most_a_check_more() {
        let at = stalls(|_| (WaitsFor::Client, 0)).unwrap();
        assert_eq!(at, RULE.timeout + RULE.interval());
    }

    #[test]
    fn a_byte_now_and_then_does_not_keep_a_request() {
        let at = stalls(|_| (WaitsFor::Client, 1)).unwrap();
        assert!(at <= RULE.timeout + 2 * RULE.interval(), "{at:?}");
        // A byte each minute.
        let at = stalls(|check| (WaitsFor::Client, u64::from(check % 8 == 7))).unwrap();
        assert!(at <= RULE.timeout + 2 * RULE.interval(), "{at:?}");
    }

    #[test]
    fn progress_pays_for_a_pause_of_five_timeouts_and_no_longer() {
        let pause = |moved| stalls(move |check| (WaitsFor::Client, u64::from(check == 1) * moved));
        assert_eq!(pause(1 << 30), Some(5 * RULE.timeout + RULE.interval()));
        assert_eq!(pause(8 * ENOUGH), Some(2 * RULE.timeout + RULE.interval()));
    }

    #[test]
    fn the_minimum_rate_keeps_a_request_and_half_of_it_does_not() {
        assert_eq!(stalls(|_| (WaitsFor::Client, ENOUGH)), None);
        // Also if the client reports only each four minutes that it has read.
        let burst = |check: u32| u64::from(check % 32 == 1) * 32 * ENOUGH;
        assert_eq!(stalls(|check| (WaitsFor::Client, burst(check))), None);
        assert!(stalls(|_| (WaitsFor::Client, ENOUGH / 2)).is_some());
        assert!(stalls(|check| (WaitsFor::Client, burst(check) / 2)).is_some());
    }

    #[test]
    fn waiting_for_the_handler_or_the_server_never_counts() {
        assert_eq!(stalls(|_| (WaitsFor::Handler, 0)), None);
        assert_eq!(stalls(|_| (WaitsFor::Server, 0)), None);
        assert_eq!(stalls(|_| (WaitsFor::Window, 0)), None);
        // An event each minute, seen on its way by chance.
        let event = |check: u32| match check % 8 {
            0 => (WaitsFor::Client, 10),
            _ => (WaitsFor::Handler, 0),
        };
        assert_eq!(stalls(event), None);
    }

    #[test]
    fn a_slow_connection_ends_what_does_not_move_after_five_timeouts() {
        let at = stalls(|_| (WaitsFor::SlowLink, 0)).unwrap();
        assert_eq!(at, 5 * RULE.timeout + RULE.interval());
        assert_eq!(stalls(|_| (WaitsFor::SlowLink, ENOUGH / 5)), None);
        assert!(stalls(|_| (WaitsFor::SlowLink, ENOUGH / 10)).is_some());
    }

    #[test]
    fn waiting_for_the_server_in_between_wins_no_time_back() {
        let half = |check: u32| match check % 2 {
            0 => (WaitsFor::Client, 0),
            _ => (WaitsFor::Server, 0),
        };
        assert!(stalls(half).unwrap() <= 3 * RULE.timeout);
    }

    #[test]
    fn without_a_minimum_rate_any_byte_wins_all_time_back() {
        let rule = StallRule { min_rate: 0, ..RULE };
        assert_eq!(rule.worth(1), Duration::MAX);
        let mut timer = StallTimer::default();
        let mut stalled = |moved| timer.check(&rule, WaitsFor::Client, moved, rule.interval());
        assert!(!(30..1000).any(|check| stalled(check / 30)));
        assert!((0..50).any(|_| stalled(33)));
    }

    #[test]
    fn a_suspended_process_blames_no_client() {
        let hour = Duration::from_secs(3600);
        assert_eq!(RULE.accountable(hour), Duration::from_secs(15));
    }
}
