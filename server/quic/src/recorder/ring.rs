//! The latest events of a connection.

use std::time::{Duration, Instant};

use quiche::Figures;
use sluicegate_base::observe::account::Wait;

use super::RestSample;
use super::event::{Condition, Event, INFINITE, Occurrence, Rtt, number};

/// Number of events.
const EVENTS: usize = 256;
/// States of a controller that are told apart; there is memory for so many names.
const STATES: usize = 16;

/// The latest events of a connection, and its state before the oldest one.
#[derive(Debug)]
pub(crate) struct Ring {
    events: Vec<Event>,
    /// Place of the oldest event once the ring is full.
    oldest: usize,
    before: Condition,
    newest: Instant,
    /// Figures of the latest look, with the state's number.
    figures: Figures,
    state: u8,
    /// Names of the controller's states.
    states: Vec<&'static str>,
}

impl Ring {
    /// Memory that it holds beside itself, bytes.
    pub(super) const BYTES: usize = EVENTS * size_of::<Event>() + STATES * size_of::<&str>();

    /// Returns a ring that begins with a look.
    pub(crate) fn new(look: &RestSample) -> Ring {
        let mut states = Vec::with_capacity(STATES);
        states.push(look.state);
        Ring {
            events: Vec::with_capacity(EVENTS),
            oldest: 0,
            before: Condition::of(look),
            newest: look.now,
            figures: look.figures,
            state: 0,
            states,
        }
    }

    pub(super) fn restart(&mut self, look: &RestSample) {
        self.events.clear();
        self.oldest = 0;
        self.before = Condition::of(look);
        self.newest = look.now;
        self.figures = look.figures;
        self.state = 0;
        self.states.clear();
        self.states.push(look.state);
    }

    /// Returns the time of the newest event, or that of its beginning.
    pub(crate) fn newest(&self) -> Instant {
        self.newest
    }

    pub(super) fn wait(&mut self, wait: Wait, from: Instant) {
        self.push(Occurrence::Wait(wait), from);
    }

    /// Records what has changed since the look before; waits are recorded when they begin.
    pub(super) fn record(&mut self, look: &RestSample) {
        let (old, new) = (std::mem::replace(&mut self.figures, look.figures), &look.figures);
        let (window, in_flight) = (new.window, new.in_flight);
        let packets = (new.sent_packets, new.acked, new.lost_packets, window, in_flight);
        if packets != (old.sent_packets, old.acked, old.lost_packets, old.window, old.in_flight) {
            let packets = Occurrence::Packets {
                sent: number(new.sent_packets.saturating_sub(old.sent_packets)),
                sent_bytes: number(new.sent.saturating_sub(old.sent)),
                acked_bytes: number(new.acked.saturating_sub(old.acked)),
                lost: number(new.lost_packets.saturating_sub(old.lost_packets)),
                window: number(window),
                in_flight: number(in_flight),
            };
            self.push(packets, look.now);
        }
        if (new.rtt, new.latest_rtt) != (old.rtt, old.latest_rtt) {
            self.push(Occurrence::Rtt(Rtt::new(new)), look.now);
        }
        if new.ssthresh != old.ssthresh {
            let threshold = new.ssthresh.map_or(INFINITE, number);
            self.push(Occurrence::Threshold(threshold), look.now);
        }
        if self.states.get(usize::from(self.state)) != Some(&look.state) {
            self.state = self.number_of(look.state);
            self.push(Occurrence::State(self.state), look.now);
        }
        if new.probe_timeouts != old.probe_timeouts {
            self.push(Occurrence::ProbeTimeouts(new.probe_timeouts), look.now);
        }
        let streams = (new.streams_begun, new.streams_ended);
        if streams != (old.streams_begun, old.streams_ended) {
            let begun = number(new.streams_begun.saturating_sub(old.streams_begun));
            let ended = number(new.streams_ended.saturating_sub(old.streams_ended));
            self.push(Occurrence::Streams { begun, ended }, look.now);
        }
    }

    /// Returns the number of a state. One state too many takes the place of the last one.
    fn number_of(&mut self, state: &'static str) -> u8 {
        let known = self.states.iter().position(|name| *name == state);
        let place = known.unwrap_or_else(|| {
            self.states.truncate(STATES - 1);
            self.states.push(state);
            self.states.len() - 1
        });
        u8::try_from(place).unwrap_or(u8::MAX)
    }

    fn push(&mut self, what: Occurrence, at: Instant) {
        let after = number(at.saturating_duration_since(self.newest).as_micros());
        // Of waits that began before the newest event the order counts, not the time.
        self.newest = self.newest.max(at);
        let event = Event { after, what };
        if self.events.len() < EVENTS {
            self.events.push(event);
            return;
        }
        if let Some(oldest) = self.events.get_mut(self.oldest) {
            let lost = std::mem::replace(oldest, event);
            self.before.apply(lost.what);
            self.oldest = (self.oldest + 1) % EVENTS;
        }
    }

    /// Returns the number of events.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns the state before the oldest event.
    pub(crate) fn before(&self) -> Condition {
        self.before
    }

    /// Returns the name of a state of the controller.
    pub(crate) fn state(&self, number: u8) -> &'static str {
        self.states.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// Returns the time from the oldest event to the newest.
    pub(crate) fn span(&self) -> Duration {
        let (newer, older) = self.events.split_at(self.oldest);
        let times = older.iter().chain(newer).skip(1);
        times.map(|event| Duration::from_micros(event.after.into())).sum()
    }

    /// Returns the events with their times since the oldest one, the oldest first.
    pub(crate) fn events(&self) -> impl Iterator<Item = (Duration, Occurrence)> {
        let (newer, older) = self.events.split_at(self.oldest);
        let mut at = None;
        older.iter().chain(newer).map(move |event| {
            let after = Duration::from_micros(event.after.into());
            let now = at.map_or(Duration::ZERO, |before| before + after);
            at = Some(now);
            (now, event.what)
        })
    }
}
