//! The rules that are checked after every call.

use sluicegate_cc::{Controller, MAX_QUANTUM, Snapshot, State, Time};

use super::outcome::Violation;

/// The latest call to the controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) name: &'static str,
    /// Latest time reported.
    pub(super) now: Time,
    /// Bytes newly acknowledged.
    pub(super) acked: u64,
    /// Whether it reported losses, CE marks or persistent congestion.
    pub(super) signal: bool,
}

/// One controller's record.
#[derive(Debug)]
pub(super) struct Rules {
    algorithm: &'static str,
    consistent: bool,
    mtu: u64,
    calls: u64,
    last: Snapshot,
    /// Largest window so far.
    peak: u64,
    /// Largest window that needs no bytes in flight to be earned.
    free: u64,
    max_in_flight: u64,
}

impl Rules {
    pub(super) fn new(
        algorithm: &'static str,
        controller: &dyn Controller,
        mtu: u64,
        consistent: bool,
    ) -> Self {
        let last = controller.snapshot();
        Self {
            algorithm,
            consistent,
            mtu,
            calls: 0,
            last,
            peak: last.cwnd,
            free: last.cwnd,
            max_in_flight: 0,
        }
    }

    /// Allows windows of `window` bytes that nothing has earned.
    pub(super) fn given(mut self, window: u64) -> Self {
        self.free = self.free.max(window);
        self.peak = self.peak.max(window);
        self
    }

    pub(super) const fn calls(&self) -> u64 {
        self.calls
    }

    /// Notes the bytes in flight.
    pub(super) fn note_in_flight(&mut self, in_flight: u64) {
        self.max_in_flight = self.max_in_flight.max(in_flight);
    }

    /// Notes a new datagram size: windows that count in datagrams may follow it.
    pub(super) fn note_mtu(&mut self, mtu: u64) {
        let scaled = self.free.div_ceil(self.mtu).saturating_mul(mtu);
        // A window that datagrams of the size before had earned stays.
        let earned = self.max_in_flight.saturating_add(self.mtu).saturating_mul(2);
        self.free = self.free.max(scaled).max(earned);
        self.peak = self.peak.max(scaled);
        self.mtu = mtu;
    }

    pub(super) fn check(
        &mut self,
        controller: &dyn Controller,
        call: Call,
    ) -> Result<(), Violation> {
        self.calls += 1;
        let now = controller.snapshot();
        let violated = always(controller, &now, self.mtu, call.now)
            .or_else(|| self.consistent.then(|| self.with_a_consistent_transport(&now, call))?);
        self.peak = self.peak.max(now.cwnd);
        self.last = now;
        match violated {
            None => Ok(()),
            Some(rule) => Err(Violation {
                algorithm: self.algorithm,
                call: self.calls,
                name: call.name,
                rule,
            }),
        }
    }

    fn with_a_consistent_transport(&self, now: &Snapshot, call: Call) -> Option<String> {
        let last = &self.last;
        let earned = self.peak.saturating_add(call.acked);
        if now.cwnd > earned {
            return Some(format!("window grew to {}, of which only {earned} was earned", now.cwnd));
        }
        let full = self.max_in_flight.saturating_add(self.mtu);
        let used = self.free.max(full.saturating_mul(2));
        if now.cwnd > used {
            return Some(format!("window {} where no more than {full} was in flight", now.cwnd));
        }
        if now.congestion_events < last.congestion_events {
            return Some("congestion events uncounted".to_owned());
        }
        if now.congestion_events > last.congestion_events && !call.signal {
            return Some("congestion counted where none was reported".to_owned());
        }
        if now.state == State::Recovery && last.state != State::Recovery && !call.signal {
            return Some("recovery began without a loss or CE mark".to_owned());
        }
        if now.idle_excluded < last.idle_excluded {
            return Some(format!("idle time shrank to {:?}", now.idle_excluded));
        }
        let life = call.now.saturating_since(Time::ZERO);
        (now.idle_excluded > life).then(|| format!("idle for {:?} in {life:?}", now.idle_excluded))
    }
}

/// Returns the first violated rule of those that hold with any transport.
fn always(controller: &dyn Controller, now: &Snapshot, mtu: u64, time: Time) -> Option<String> {
    if now.cwnd < 2 * mtu {
        return Some(format!("window {} below two datagrams of {mtu}", now.cwnd));
    }
    if now.epoch.is_some_and(|epoch| epoch > time) {
        return Some(format!("curve begins at {:?}, after {time:?}", now.epoch));
    }
    if now.pacing_rate.is_some_and(|rate| rate == 0 || rate == u64::MAX) {
        return Some(format!("pacing rate {:?}", now.pacing_rate));
    }
    let quantum = controller.send_quantum();
    if quantum < mtu || quantum > MAX_QUANTUM.max(mtu) {
        return Some(format!("burst of {quantum} bytes, datagrams of {mtu}"));
    }
    let shown = (now.cwnd, now.ssthresh, now.pacing_rate, now.state);
    let asked =
        (controller.cwnd(), controller.ssthresh(), controller.pacing_rate(), controller.state());
    (shown != asked).then(|| format!("snapshot {shown:?}, accessors {asked:?}"))
}
