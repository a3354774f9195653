//! The recorder of an active connection, and the file of what it has recorded.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluicegate_base::clock;
use sluicegate_base::observe::account::Wait;
use sluicegate_base::observe::metrics::Label as _;
use sluicegate_base::observe::qlog::{HeaderFacts, Trace, TraceText, milliseconds};

use super::trace::{CONNECTION_BLOCKED, blocked_data};
use super::waits::Rest;
use super::{Connection, NO_STATE};
use crate::application::Application;
use crate::counters::HandshakeFailure;
use crate::recorder::{
    Condition, INFINITE, Occurrence, RecorderPool, RestSample, Ring, Rtt, Trigger,
};

/// Event that says why there is a file.
const TRIGGER: &str = "sluicegate:trigger";
/// Event of packets that were sent, acknowledged and lost since the last such event.
const PACKETS: &str = "sluicegate:packets";
/// Event of streams that began and ended since the last such event.
const STREAMS: &str = "sluicegate:streams";
const METRICS: &str = "quic:recovery_metrics_updated";
const STATE: &str = "quic:congestion_state_updated";
const PARAMETERS: &str = "quic:recovery_parameters_set";

/// Time after which a trigger of one kind may write another file of a connection.
const AGAIN: Duration = Duration::from_secs(300);

/// Least window of BBR (draft-ietf-ccwg-bbr §2.7, MinPipeCwnd) and of others (RFC 9002 §7.2), packets.
const BBR_FLOOR: usize = 4;
const FLOOR: usize = 2;

/// Codes by which clients close connections that they need no more: NO_ERROR, and APPLICATION_ERROR, which stands for all codes of
/// applications in a handshake (RFC 9000 §10.2.3). Browsers do so where TCP is faster.
const CANCELLED: [u64; 2] = [0, 0xc];

/// Times at which triggers last had files of a connection.
#[derive(Debug, Default)]
pub(super) struct LastDumps([Option<Instant>; Trigger::ALL.len()]);

/// Returns whether a connection that waits for this may have work at any moment.
fn is_busy(wait: Wait) -> bool {
    !matches!(wait, Wait::Client | Wait::Application | Wait::Closing)
}

impl<A: Application> Connection<A> {
    /// Records a rest. Returns the trigger that fires, if one does.
    ///
    /// A recorder is lent at the second rest in a row with work: a response that one flight of packets brings needs none.
    pub(crate) fn record_rest(
        &mut self,
        rest: Rest,
        pool: &mut RecorderPool,
        now: Instant,
    ) -> Option<Trigger> {
        let Rest { before, wait } = rest;
        if let Some(mut recorder) = self.recorder.take() {
            let ends = wait == Wait::Client || wait == Wait::Closing && !self.half_open;
            if ends || pool.wants_back() || recorder.is_quiet(wait, now) {
                pool.put_back(recorder);
                return None;
            }
            let look = self.look(wait, now);
            let trigger = look.and_then(|look| recorder.look(&look, pool.stall()));
            self.recorder = Some(recorder);
            return trigger;
        }
        // Anybody can begin handshakes: only those from proved addresses get memory.
        let may_have_one = is_busy(wait) && is_busy(before) && self.client_path().is_some();
        if may_have_one && pool.has_one() {
            let look = self.look(wait, now)?;
            let mut recorder = pool.take(&look)?;
            let trigger = recorder.look(&look, pool.stall());
            self.recorder = Some(recorder);
            return trigger;
        }
        None
    }

    /// Gives its recorder back.
    pub(crate) fn end_recorder(&mut self, pool: &mut RecorderPool) {
        if let Some(recorder) = self.recorder.take() {
            pool.put_back(recorder);
        }
    }

    /// Returns whether its handshake has failed, although the client has proved its address and did not just change its mind, and the
    /// server did not end it for reasons of its own.
    pub(crate) fn has_failed_handshake(&self) -> bool {
        let code = self.quic.peer_error().map(|error| error.error_code);
        let is_cancelled = code.is_some_and(|code| CANCELLED.contains(&code));
        let is_own = matches!(
            self.handshake_failure(),
            HandshakeFailure::Memory | HandshakeFailure::ServerClosed | HandshakeFailure::Displaced
        );
        self.half_open && self.client_path().is_some() && !is_cancelled && !is_own
    }

    fn look(&self, wait: Wait, now: Instant) -> Option<RestSample> {
        let figures = self.quic.figures()?;
        let floor = self.floor(figures.datagram);
        let state = self.quic.congestion_state().unwrap_or(NO_STATE);
        Some(RestSample { now, wait, state, figures, floor, marked: self.ecn.ce_reported })
    }

    /// Returns the largest window that counts as the floor, bytes, with datagrams of this size.
    pub(super) fn floor(&self, datagram: usize) -> usize {
        match self.least_window() {
            // A window grows by next to nothing on its way to the third packet.
            FLOOR => (FLOOR + 1) * datagram - 1,
            least => least * datagram,
        }
    }

    /// Returns the least window of its algorithm, packets.
    fn least_window(&self) -> usize {
        if self.algorithm.starts_with("bbr") { BBR_FLOOR } else { FLOOR }
    }

    /// Returns whether a trigger had a file of it a short time ago.
    pub(crate) fn was_dumped(&self, trigger: Trigger, now: Instant) -> bool {
        let last = self.last_dumps.as_ref().and_then(|last| last.0[trigger.index()]);
        last.is_some_and(|at| now.saturating_duration_since(at) < AGAIN)
    }

    /// Notes that a trigger has a file of it.
    pub(crate) fn note_dump(&mut self, trigger: Trigger, now: Instant) {
        if trigger != Trigger::Operator {
            self.last_dumps.get_or_insert_default().0[trigger.index()] = Some(now);
        }
    }

    /// Writes a trigger into the trace that is being written. Returns whether there is one.
    pub(crate) fn trace_trigger(&mut self, trigger: Trigger, now: Instant) -> bool {
        let is_traced = self.trace_file().is_some();
        if is_traced {
            self.quic.trace_event(TRIGGER, self.about_trigger(trigger, now), now);
        }
        is_traced
    }

    /// Writes what is recorded of it into a trace of its own: why, its state before the oldest event, the events, and its state now.
    pub(crate) fn dump(&self, mut trace: Trace, listener: &str, trigger: Trigger, now: Instant) {
        let Some(look) = self.look(self.account.wait().0, now) else {
            return;
        };
        let empty;
        let ring = match &self.recorder {
            Some(recorder) => recorder.ring(),
            None => {
                empty = Ring::new(&look);
                &empty
            }
        };
        let text = self.text_of(ring, &look, listener, trigger);
        // Writing to a trace cannot fail.
        let _ = trace.write_all(&text.into_bytes());
    }

    fn text_of(
        &self,
        ring: &Ring,
        look: &RestSample,
        listener: &str,
        trigger: Trigger,
    ) -> TraceText {
        let age = ring.span() + look.now.saturating_duration_since(ring.newest());
        let algorithm = self.algorithm;
        let mut text = TraceText::new(&HeaderFacts {
            title: &format!("sluicegate {listener}"),
            description: &format!(
                "listener={listener} congestion_control={algorithm} flight_recorder=true"
            ),
            schemas: &quiche::redact::SCHEMAS,
            began: clock::unix().saturating_sub(age),
        });
        let begin = Duration::ZERO;
        let mut why = self.about_trigger(trigger, look.now);
        why["at"] = milliseconds(age);
        why["events"] = ring.len().into();
        text.add(begin, TRIGGER, why);
        let datagram = look.figures.datagram;
        let bounds = json!({
            "max_datagram_size": datagram,
            "minimum_congestion_window": self.least_window() * datagram,
        });
        text.add(begin, PARAMETERS, bounds);
        let before = ring.before();
        text.add(begin, METRICS, metrics(&before));
        text.add(begin, STATE, json!({ "new": ring.state(before.state) }));
        text.add(begin, CONNECTION_BLOCKED, blocked_data(None, before.wait));
        for (at, what) in ring.events() {
            add(&mut text, at, what, ring);
        }
        text.add(age, METRICS, metrics(&Condition::of(look)));
        text
    }

    /// Returns the data of a trigger: the cause, and the connection's state with its account.
    fn about_trigger(&self, trigger: Trigger, now: Instant) -> Value {
        let mut data = self.about(now);
        data["trigger"] = trigger.name().into();
        data
    }
}

/// Adds an event.
fn add(text: &mut TraceText, at: Duration, what: Occurrence, ring: &Ring) {
    match what {
        Occurrence::Packets { sent, sent_bytes, acked_bytes, lost, window, in_flight } => {
            let packets = json!({
                "sent": sent,
                "sent_bytes": sent_bytes,
                "acked_bytes": acked_bytes,
                "lost": lost,
            });
            text.add(at, PACKETS, packets);
            let window = json!({ "congestion_window": window, "bytes_in_flight": in_flight });
            text.add(at, METRICS, window);
        }
        Occurrence::Threshold(threshold) => {
            text.add(at, METRICS, json!({ "ssthresh": finite(threshold) }));
        }
        Occurrence::State(state) => text.add(at, STATE, json!({ "new": ring.state(state) })),
        Occurrence::Wait(wait) => text.add(at, CONNECTION_BLOCKED, blocked_data(None, wait)),
        Occurrence::Rtt(rtt) => text.add(at, METRICS, round_trips(rtt)),
        Occurrence::ProbeTimeouts(count) => text.add(at, METRICS, json!({ "pto_count": count })),
        Occurrence::Streams { begun, ended } => {
            text.add(at, STREAMS, json!({ "begun": begun, "ended": ended }));
        }
    }
}

/// Returns all metrics of recovery.
fn metrics(condition: &Condition) -> Value {
    let mut data = round_trips(condition.rtt);
    data["congestion_window"] = condition.window.into();
    data["bytes_in_flight"] = condition.in_flight.into();
    data["pto_count"] = condition.probe_timeouts.into();
    if let Some(threshold) = finite(condition.threshold) {
        data["ssthresh"] = threshold.into();
    }
    data
}

fn finite(threshold: u32) -> Option<u32> {
    Some(threshold).filter(|threshold| *threshold != INFINITE)
}

/// Returns the round-trip times; before the first sample the assumption alone.
fn round_trips(rtt: Rtt) -> Value {
    let time = |micros: u32| milliseconds(Duration::from_micros(micros.into()));
    let mut data = json!({ "smoothed_rtt": time(rtt.smoothed) });
    if rtt.latest > 0 {
        data["latest_rtt"] = time(rtt.latest);
        data["min_rtt"] = time(rtt.min);
    }
    data
}
