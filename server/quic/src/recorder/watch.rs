//! Watches a connection for what no error tells. Time is in the looks.

use std::time::{Duration, Instant};

use sluicegate_base::observe::account::Wait;

use super::{RestSample, Trigger};

/// Least time, and number of round trips, in which the window is at its floor: it is there for a while after each real loss.
const FLOOR_TIME: Duration = Duration::from_secs(1);
const FLOOR_ROUND_TRIPS: u32 = 30;
/// Least time, and number of round trips, in recovery since the last loss. One round trip is usual (RFC 9002 §7.3.2).
const RECOVERY_TIME: Duration = Duration::from_secs(1);
const RECOVERY_ROUND_TRIPS: u32 = 20;
/// Probe timeouts in a row.
const PROBE_TIMEOUTS: u32 = 3;

/// Watch of one connection while it is active.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    floor: Option<Stay>,
    recovery: Option<Stay>,
    /// Losses and congestion marks at the look before.
    signals: (usize, u64),
    /// Bytes acknowledged so far, and since when there were no more although data waits.
    acked: u64,
    progress: Option<Stay>,
    has_timeouts: bool,
}

/// Time for which something has held.
#[derive(Clone, Copy, Debug)]
struct Stay {
    since: Instant,
    has_fired: bool,
}

impl Stay {
    /// Returns since when it has held, if that is as long as its trigger takes.
    fn fired(self) -> Option<Instant> {
        self.has_fired.then_some(self.since)
    }

    /// Goes on with a stay where its condition holds, and ends it where it does not. Returns whether it has lasted for `time`, once.
    fn hold(stay: &mut Option<Stay>, holds: bool, time: Duration, now: Instant) -> bool {
        if !holds {
            *stay = None;
            return false;
        }
        let stay = stay.get_or_insert(Stay { since: now, has_fired: false });
        let lasts = now.saturating_duration_since(stay.since) >= time;
        lasts && !std::mem::replace(&mut stay.has_fired, lasts)
    }
}

impl Watch {
    pub(super) fn new(look: &RestSample) -> Watch {
        Watch {
            floor: None,
            recovery: None,
            signals: (look.figures.lost_packets, look.marked),
            acked: look.figures.acked,
            progress: None,
            has_timeouts: false,
        }
    }

    /// Takes a look at the connection. Returns the trigger that fires, if one does; of several the first one.
    pub(super) fn look(&mut self, look: &RestSample, stall: Duration) -> Option<Trigger> {
        let RestSample { now, wait, figures, .. } = look;
        let now = *now;
        let waits_to_send = matches!(wait, Wait::Congestion | Wait::Pacing);
        // A client that does not respond explains everything.
        let responds = figures.probe_timeouts == 0;
        let is_pinned = waits_to_send && responds && figures.window <= look.floor;
        let time = FLOOR_TIME.max(figures.rtt * FLOOR_ROUND_TRIPS);
        let floor = Stay::hold(&mut self.floor, is_pinned, time, now);

        let signals = (figures.lost_packets, look.marked);
        let is_signalled = std::mem::replace(&mut self.signals, signals) != signals;
        let recovers = waits_to_send && responds && !is_signalled && is_recovery(look.state);
        let time = RECOVERY_TIME.max(figures.rtt * RECOVERY_ROUND_TRIPS);
        let recovery = Stay::hold(&mut self.recovery, recovers, time, now);

        let is_silent = figures.probe_timeouts >= PROBE_TIMEOUTS;
        let timeouts = is_silent && !self.has_timeouts;
        self.has_timeouts = is_silent;

        if std::mem::replace(&mut self.acked, figures.acked) != figures.acked {
            self.progress = None;
        }
        let waits = waits_to_send || *wait == Wait::Acknowledgement;
        let stalls = Stay::hold(&mut self.progress, waits, stall, now);

        let all = [
            (floor, Trigger::WindowFloor),
            (recovery, Trigger::Recovery),
            (stalls, Trigger::NoProgress),
            (timeouts, Trigger::ProbeTimeouts),
        ];
        all.into_iter().find(|(fires, _)| *fires).map(|(_, trigger)| trigger)
    }

    /// Returns what has lasted until now for as long as its trigger takes, and since when.
    pub(super) fn troubles(&self) -> impl Iterator<Item = (Trigger, Instant)> {
        let all = [
            (self.floor, Trigger::WindowFloor),
            (self.recovery, Trigger::Recovery),
            (self.progress, Trigger::NoProgress),
        ];
        all.into_iter().filter_map(|(stay, trigger)| Some((trigger, stay?.fired()?)))
    }

    /// Returns when the lack of progress fires, though nothing happens until then.
    pub(super) fn deadline(&self, stall: Duration) -> Option<Instant> {
        self.progress.filter(|stay| !stay.has_fired).map(|stay| stay.since + stall)
    }
}

fn is_recovery(state: &str) -> bool {
    state.ends_with("recovery")
}
