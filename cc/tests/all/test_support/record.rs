//! A controller whose state is recorded after every call that may change it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate_cc::{
    Controller, Event, Layer, Model, PacketState, Sent, Snapshot, State, Time, Value,
};
use sluicegate_sim::{Bottleneck, Flow, FlowOutcome, Simulation, Source};

/// State of the controller after one event, or after a packet that left with nothing in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) at: Duration,
    pub(crate) state: State,
    pub(crate) cwnd: u64,
    pub(crate) rate: u64,
    pub(crate) model: Model,
    pub(crate) in_flight: u64,
    pub(crate) lost: usize,
    /// Whether a packet that left with nothing in flight was the reason.
    pub(crate) restart: bool,
}

impl Entry {
    fn new(now: Time, snapshot: &Snapshot, in_flight: u64, lost: usize, restart: bool) -> Self {
        Self {
            at: now.saturating_since(Time::ZERO),
            state: snapshot.state,
            cwnd: snapshot.cwnd,
            rate: snapshot.pacing_rate.expect("paced"),
            model: snapshot.model.expect("a model"),
            in_flight,
            lost,
            restart,
        }
    }

    /// Returns the BDP of the model, bytes.
    pub(crate) fn bdp(&self) -> u64 {
        let bw = self.model.max_bw.min(self.model.bw_shortterm.unwrap_or(u64::MAX));
        let rtt = self.model.min_rtt.expect("sampled");
        #[expect(clippy::cast_possible_truncation, reason = "whole bytes")]
        let bytes = (bw as f64 * rtt.as_secs_f64()) as u64;
        bytes
    }
}

/// The log of a run.
pub(crate) type Log = Arc<Mutex<Vec<Entry>>>;

/// Records the state of the controller inside.
#[derive(Debug)]
pub(crate) struct Recorder {
    inner: Box<dyn Controller>,
    log: Log,
}

impl Recorder {
    pub(crate) fn new(inner: Box<dyn Controller>) -> (Box<Self>, Log) {
        let log = Log::default();
        let this = Self { inner, log: Arc::clone(&log) };
        (Box::new(this), log)
    }

    fn write(&self, now: Time, in_flight: u64, lost: usize, restart: bool) {
        let entry = Entry::new(now, &self.inner.snapshot(), in_flight, lost, restart);
        self.log.lock().expect("one thread").push(entry);
    }
}

impl Layer for Recorder {
    fn inner(&self) -> &dyn Controller {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        &mut *self.inner
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        let state = self.inner.on_sent(now, sent);
        if sent.in_flight_before == 0 {
            self.write(now, sent.bytes, 0, true);
        }
        state
    }
    fn on_event(&mut self, event: &Event<'_>) {
        self.inner.on_event(event);
        self.write(event.now, event.in_flight, event.lost.len(), false);
    }
}

/// Returns one flow of BBRv3 alone on a bottleneck, written down.
pub(crate) fn record(
    bottleneck: &Bottleneck,
    source: Source,
    limit: Duration,
) -> (FlowOutcome, Vec<Entry>) {
    record_with(&[], bottleneck, source, limit)
}

/// Returns the same with options.
pub(crate) fn record_with(
    given: &[(&str, Value)],
    bottleneck: &Bottleneck,
    source: Source,
    limit: Duration,
) -> (FlowOutcome, Vec<Entry>) {
    let algorithm = super::named("bbr3");
    let options = super::options(&algorithm, given);
    let (recorder, log) = Recorder::new(algorithm.controller(&super::init(1), &options));
    let mut outcomes = Simulation::new(bottleneck.clone(), 1)
        .sampled_every(super::ms(10))
        .with(Flow::new(source), recorder)
        .run(limit);
    let entries = log.lock().expect("one thread").clone();
    (outcomes.remove(0), entries)
}

/// Returns the place of the first entry in `state` at or after `from`.
pub(crate) fn enters(entries: &[Entry], state: State, from: Duration) -> usize {
    let found = entries
        .windows(2)
        .position(|pair| pair[1].at >= from && pair[1].state == state && pair[0].state != state);
    found.unwrap_or_else(|| panic!("never enters {state:?}")) + 1
}

/// Returns the place of the first entry after `from` that is in another state.
pub(crate) fn leaves(entries: &[Entry], from: usize) -> usize {
    let state = entries[from].state;
    let found = entries[from..].iter().position(|e| e.state != state);
    from + found.unwrap_or_else(|| panic!("never leaves {state:?}"))
}

/// Returns a source that sends without limit until `from`, as in an endless run over the same bottleneck, and then `bytes` every
/// `every` until the end.
pub(crate) fn limited_from(
    bottleneck: &Bottleneck,
    from: Duration,
    bytes: u64,
    every: Duration,
) -> Source {
    let sent = {
        let (recorder, _) = Recorder::new(super::controller(&super::named("bbr3"), 1));
        let outcomes = Simulation::new(bottleneck.clone(), 1)
            .sampled_every(super::ms(10))
            .with(Flow::new(Source::Endless), recorder)
            .run(from);
        outcomes[0].sent_packets * super::MTU
    };
    let trickle = (1..2_000).map(|i| (from + every * i, bytes));
    Source::Bursts(std::iter::once((Duration::ZERO, sent)).chain(trickle).collect())
}
