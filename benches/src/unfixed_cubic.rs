//! CUBIC with the idle accounting of the incident, for tests and demonstrations alone.
//!
//! Its growth curve starts at the latest congestion signal. With nothing in flight, that start moves later by the time since the last
//! packet *left*, as Linux did for a while and quiche after it. With a window of two packets nothing is in flight once in each round
//! trip: the start moves by a round trip each time, stays ahead of every packet, and all acknowledgements count as those of packets
//! that left before the signal, which let no window grow. The mended accounting measures from the last acknowledgement.

use std::time::Duration;

use sluicegate_cc::{
    Algorithm, Controller, Event, Init, Options, Packet, PacketState, PathChange, Sent, Snapshot,
    State, Time,
};

/// The description for a registry.
pub const UNFIXED_CUBIC: Algorithm = Algorithm {
    name: "cubic-unfixed",
    summary: "CUBIC with the idle accounting of the incident: for demonstrations alone.",
    options: &[],
    model_based: false,
    has_window_law: true,
    scalable: false,
    build: |init: &Init, _: &Options| Box::new(UnfixedCubic::new(init)),
};

/// Share of the window that a congestion signal leaves (RFC 9438 §4.6).
const BETA: f64 = 0.7;
/// Steepness of the curve, packets per cubic second (RFC 9438 §5.1).
const C: f64 = 0.4;
/// Least window, packets (RFC 9002 §7.2).
const FLOOR: u64 = 2;
/// Packets that may leave back to back.
const BURST: u64 = 10;

#[derive(Debug)]
struct UnfixedCubic {
    mtu: u64,
    initial: u64,
    cwnd: u64,
    ssthresh: Option<u64>,
    /// Window before the latest signal, packets.
    w_max: f64,
    /// Latest congestion signal, later by the time that counted as idle.
    recovery_start: Option<Time>,
    last_sent: Option<Time>,
    srtt: Option<Duration>,
    idle_excluded: Duration,
    congestion_events: u64,
}

impl UnfixedCubic {
    fn new(init: &Init) -> UnfixedCubic {
        UnfixedCubic {
            mtu: init.mtu,
            initial: init.initial_window_packets,
            cwnd: init.initial_window_packets * init.mtu,
            ssthresh: None,
            w_max: 0.0,
            recovery_start: None,
            last_sent: None,
            srtt: None,
            idle_excluded: Duration::ZERO,
            congestion_events: 0,
        }
    }

    fn floor(&self) -> u64 {
        FLOOR * self.mtu
    }

    /// Returns whether a packet left before the congestion signal, by the accounting.
    fn is_before_signal(&self, packet: &Packet) -> bool {
        self.recovery_start.is_some_and(|start| packet.time_sent <= start)
    }

    #[expect(clippy::cast_possible_truncation, reason = "whole bytes; saturates")]
    fn cut(&mut self, now: Time) {
        self.w_max = self.cwnd as f64 / self.mtu as f64;
        self.cwnd = ((self.cwnd as f64 * BETA) as u64).max(self.floor());
        self.ssthresh = Some(self.cwnd);
        self.recovery_start = Some(now);
        self.congestion_events += 1;
    }

    #[expect(clippy::cast_possible_truncation, reason = "whole bytes; saturates")]
    fn grow(&mut self, packet: &Packet, now: Time) {
        let start = match (self.ssthresh, self.recovery_start) {
            (Some(threshold), Some(start)) if self.cwnd >= threshold => start,
            _ => {
                self.cwnd += packet.bytes;
                return;
            }
        };
        let round = self.srtt.unwrap_or_default().as_secs_f64();
        let time = now.saturating_since(start).as_secs_f64() + round;
        let k = (self.w_max * (1.0 - BETA) / C).cbrt();
        let window = self.cwnd as f64 / self.mtu as f64;
        let target = C.mul_add((time - k).powi(3), self.w_max).clamp(window, 1.5 * window);
        let reno = 3.0 * (1.0 - BETA) / (1.0 + BETA);
        let share = packet.bytes as f64 / self.cwnd as f64;
        let growth = (target - window).max(reno) * share;
        self.cwnd += (growth * self.mtu as f64) as u64;
    }
}

impl Controller for UnfixedCubic {
    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        let idle = self.last_sent.filter(|_| sent.in_flight_before == 0);
        if let (Some(start), Some(last)) = (self.recovery_start, idle) {
            let pause = now.saturating_since(last);
            self.recovery_start = Some(start + pause);
            self.idle_excluded += pause;
        }
        self.last_sent = Some(now);
        PacketState::default()
    }

    fn on_event(&mut self, event: &Event<'_>) {
        if event.rtt.min.is_some() {
            self.srtt = Some(event.rtt.smoothed);
        }
        if event.lost.last().is_some_and(|packet| !self.is_before_signal(packet)) {
            self.cut(event.now);
        }
        for packet in event.acked {
            if !self.is_before_signal(packet) {
                self.grow(packet, event.now);
            }
        }
    }

    fn on_app_limited(&mut self, _: Time, _: u64) {}

    fn on_persistent_congestion(&mut self, _: Time) {
        self.cwnd = self.floor();
        self.recovery_start = None;
    }

    fn on_discarded(&mut self, _: Time, _: u64) {}

    fn on_path_changed(&mut self, _: Time, change: PathChange) {
        if change == PathChange::Address {
            let (mtu, initial_window_packets) = (self.mtu, self.initial);
            *self = UnfixedCubic::new(&Init { mtu, initial_window_packets, seed: 0 });
        }
    }

    fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu;
        self.cwnd = self.cwnd.max(self.floor());
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// Returns none: packets that are spread over the round trip would hide the fault, since one is always in flight.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    fn send_quantum(&self) -> u64 {
        BURST * self.mtu
    }

    /// Returns recovery while packets that leave now count as older than the signal.
    fn state(&self) -> State {
        match (self.recovery_start, self.last_sent) {
            (Some(start), Some(last)) if last <= start => State::Recovery,
            _ if self.ssthresh.is_none_or(|threshold| self.cwnd < threshold) => State::SlowStart,
            _ => State::CongestionAvoidance,
        }
    }

    fn ssthresh(&self) -> Option<u64> {
        self.ssthresh
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            pacing_rate: self.pacing_rate(),
            state: self.state(),
            epoch: self.recovery_start,
            idle_excluded: self.idle_excluded,
            congestion_events: self.congestion_events,
            model: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_sim::{Flow, FlowOutcome, Simulation, Source};

    use super::*;
    use crate::collapse::{self, LossOn};

    fn download(algorithm: Algorithm, seed: u64) -> FlowOutcome {
        let scenario = collapse::scenario("cubic".into(), LossOn::Down, seed);
        let init = Init { mtu: 1_350, initial_window_packets: 10, seed };
        let controller = algorithm.controller(&init, &algorithm.defaults());
        let mut outcomes = Simulation::new(scenario.down, seed)
            .with(Flow::new(Source::Bulk(collapse::BYTES)), controller)
            .run(collapse::LIMIT);
        outcomes.remove(0)
    }

    #[test]
    fn loss_at_the_start_pins_many_downloads_at_the_floor() {
        let outcomes = (0..20).map(|seed| download(UNFIXED_CUBIC, seed));
        let failed: Vec<_> = outcomes.filter(|outcome| outcome.completed.is_none()).collect();
        assert!(failed.len() >= 5, "{}", failed.len());
        for outcome in failed {
            let last = outcome.samples.last().map(|sample| sample.snapshot.cwnd);
            assert!(last.is_some_and(|cwnd| cwnd < 3 * 1_350), "{last:?}");
        }
    }

    #[test]
    fn path_without_loss_is_filled() {
        let init = Init { mtu: 1_350, initial_window_packets: 10, seed: 1 };
        let path = sluicegate_sim::Bottleneck::new(20_000_000, Duration::from_millis(20), 1.0);
        let controller = UNFIXED_CUBIC.controller(&init, &UNFIXED_CUBIC.defaults());
        let time = Duration::from_secs(10);
        let outcomes =
            Simulation::new(path, 1).with(Flow::new(Source::Endless), controller).run(time);
        let rate = outcomes[0].throughput(Duration::from_secs(2), time);
        assert!(rate > 15e6, "{rate}");
    }
}
