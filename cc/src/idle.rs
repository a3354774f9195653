//! A clock that stands still while the application has nothing to send.
//!
//! Growth curves are functions of time, and RFC 9438 §4.2 forbids counting the time in which the application left
//! the window unused. Moving the curve's start forward after each pause is the usual way, and the usual source of
//! defects: a start moved too far lies in the future and the window freezes. Here nothing is moved. A curve keeps the
//! reading of this clock at its beginning and asks how much this clock has run since; the clock can stop, but never
//! runs backwards, so the result is never negative, whatever order events come in.

use std::time::Duration;

use crate::Time;

/// The clock of one path's growth curves.
///
/// It stops when the transport has reported that it ran out of data *and* the window is not in use, and resumes at the
/// next packet with data. Bytes in flight that reach zero because the window is small are no reason to stop: the
/// transport reports no lack of data then. It also stops for as long as growth is withheld: the window would otherwise
/// catch up with its curve in one leap.
#[derive(Debug, Default)]
pub(crate) struct ActiveClock {
    /// Latest time seen.
    now: Time,
    /// Length of all pauses that are over.
    excluded: Duration,
    /// Whether data ran out since the last packet with data.
    out_of_data: bool,
    /// Whether the window was not in use at some moment since data ran out.
    was_unused: bool,
    /// Whether the window may not grow because it was not used.
    withheld: bool,
    /// Start of the present pause.
    paused_at: Option<Time>,
}

/// A reading of an [`ActiveClock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading(Time);

impl ActiveClock {
    /// Sets the time, unless it is earlier than the latest one.
    pub(crate) fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// A packet leaves. A packet without data does not end a pause.
    pub(crate) fn on_sent(&mut self, has_data: bool) {
        if has_data {
            self.out_of_data = false;
            self.was_unused = false;
            self.settle();
        }
    }

    /// The application had nothing to send though there was room.
    pub(crate) fn on_out_of_data(&mut self, window_in_use: bool) {
        self.out_of_data = true;
        self.on_in_flight(window_in_use);
    }

    /// The bytes in flight changed.
    pub(crate) fn on_in_flight(&mut self, window_in_use: bool) {
        self.was_unused |= self.out_of_data && !window_in_use;
        self.settle();
    }

    /// Growth is withheld from now on, or no longer.
    pub(crate) fn on_growth(&mut self, withheld: bool) {
        self.withheld = withheld;
        self.settle();
    }

    /// Stops or resumes the clock.
    fn settle(&mut self) {
        if self.was_unused || self.withheld {
            self.paused_at.get_or_insert(self.now);
        } else if self.paused_at.is_some() {
            self.excluded = self.excluded();
            self.paused_at = None;
        }
    }

    /// Returns the length of all pauses, the present one included.
    pub(crate) fn excluded(&self) -> Duration {
        let present =
            self.paused_at.map_or(Duration::ZERO, |since| self.now.saturating_since(since));
        self.excluded.saturating_add(present)
    }

    /// Returns the clock's reading.
    pub(crate) fn read(&self) -> Reading {
        let excluded = u64::try_from(self.excluded().as_nanos()).unwrap_or(u64::MAX);
        Reading(Time::from_nanos(self.now.as_nanos().saturating_sub(excluded)))
    }

    /// Returns how long the clock has run since `start`.
    pub(crate) fn since(&self, start: Reading) -> Duration {
        self.read().0.saturating_since(start.0)
    }

    /// Returns the time at which a curve that began at `start` would have begun without any pause, never later than the
    /// latest time seen.
    pub(crate) fn origin(&self, start: Reading) -> Time {
        let running = u64::try_from(self.since(start).as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(self.now.as_nanos().saturating_sub(running))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * MS)
    }

    #[test]
    fn idle_moves_the_origin_by_exactly_the_idle_time() {
        let mut clock = ActiveClock::default();
        clock.advance(at(100));
        let start = clock.read();
        clock.advance(at(150));
        clock.on_out_of_data(false);
        clock.advance(at(5_150));
        clock.on_sent(true);
        assert_eq!(clock.origin(start), at(5_100));
        clock.advance(at(5_160));
        assert_eq!(clock.since(start), Duration::from_millis(60));
        assert_eq!(clock.excluded(), Duration::from_secs(5));
    }

    #[test]
    fn emptied_flight_with_data_waiting_is_not_idle() {
        let mut clock = ActiveClock::default();
        let start = clock.read();
        for round in 1..=20 {
            clock.advance(at(round * 10));
            clock.on_in_flight(false);
            clock.on_sent(true);
        }
        assert_eq!(clock.excluded(), Duration::ZERO);
        assert_eq!(clock.since(start), Duration::from_millis(200));
    }

    #[test]
    fn curve_begun_during_a_pause_does_not_start_in_the_future() {
        let mut clock = ActiveClock::default();
        clock.advance(at(10));
        clock.on_out_of_data(false);
        clock.advance(at(60));
        let start = clock.read();
        clock.advance(at(110));
        clock.on_sent(true);
        assert_eq!(clock.origin(start), at(110));
        clock.advance(at(115));
        assert_eq!(clock.since(start), Duration::from_millis(5));
    }

    #[test]
    fn used_window_keeps_the_clock_running_until_the_flight_falls() {
        let mut clock = ActiveClock::default();
        let start = clock.read();
        clock.on_out_of_data(true);
        clock.advance(at(10));
        clock.on_in_flight(true);
        clock.advance(at(20));
        clock.on_in_flight(false);
        clock.advance(at(50));
        assert_eq!(clock.since(start), Duration::from_millis(20));
    }

    #[test]
    fn withheld_growth_stops_the_clock_whatever_is_sent() {
        let mut clock = ActiveClock::default();
        let start = clock.read();
        clock.advance(at(10));
        clock.on_growth(true);
        for step in 2..100 {
            clock.advance(at(step * 10));
            clock.on_sent(true);
            clock.on_out_of_data(true);
            clock.on_growth(true);
        }
        clock.on_growth(false);
        clock.advance(at(1_000));
        assert_eq!(clock.since(start), Duration::from_millis(20));
    }

    #[test]
    fn growth_allowed_again_does_not_end_a_pause_for_lack_of_data() {
        let mut clock = ActiveClock::default();
        let start = clock.read();
        clock.on_growth(true);
        clock.on_out_of_data(false);
        clock.on_growth(false);
        clock.advance(at(100));
        assert_eq!(clock.since(start), Duration::ZERO);
        clock.on_sent(true);
        clock.advance(at(105));
        assert_eq!(clock.since(start), Duration::from_millis(5));
    }

    #[test]
    fn time_that_seems_to_run_backwards_is_ignored() {
        let mut clock = ActiveClock::default();
        clock.advance(at(100));
        let start = clock.read();
        clock.advance(at(50));
        clock.on_out_of_data(false);
        clock.advance(at(120));
        clock.on_sent(true);
        assert_eq!(clock.excluded(), Duration::from_millis(20));
        assert_eq!(clock.origin(start), at(120));
    }

    #[test]
    fn bare_probes_do_not_end_a_pause() {
        let mut clock = ActiveClock::default();
        let start = clock.read();
        clock.on_out_of_data(false);
        for second in 1..10 {
            clock.advance(at(second * 1_000));
            clock.on_sent(false);
        }
        assert_eq!(clock.since(start), Duration::ZERO);
    }
}
