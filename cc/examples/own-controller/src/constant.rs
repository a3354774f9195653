//! A window that never changes.
//!
//! It implements what the contract requires and nothing more. It is useful on a known path that nobody else uses, such as
//! between two machines of your own, or in an experiment that needs a sender which does not adapt. On a shared network it
//! is wrong, because it responds to loss with the same load.

use std::time::Duration;

use sluicegate_cc::{
    Algorithm, Controller, Event, Init, OptionKind, OptionSpec, Options, PacketState, PathChange,
    Sent, Snapshot, State, Time, Unit,
};

/// The description for the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "constant",
    summary: "A fixed window, whatever happens: for a path of known size that nobody else uses.",
    options: &[WINDOW],
    model_based: false,
    has_window_law: false,
    scalable: false,
    build: |init: &Init, options: &Options| {
        Box::new(Constant { packets: options.integer(WINDOW.name), mtu: init.mtu, srtt: None })
    },
};

const WINDOW: OptionSpec = OptionSpec {
    name: "window",
    kind: OptionKind::Integer { default: 32, min: 2, max: 10_000 },
    unit: Unit::Packets,
    summary: "Datagrams in flight at most; rate times round trip divided by the datagram size fills the path.",
};

/// Packets that may leave back to back.
const BURST: u64 = 10;

/// One path's controller.
#[derive(Debug)]
struct Constant {
    packets: u64,
    mtu: u64,
    /// Smoothed round-trip time, once there is a sample.
    srtt: Option<Duration>,
}

impl Controller for Constant {
    // Packets sent or lost and pauses of the application change nothing here. An algorithm that learns from them finds
    // everything in the arguments: times, sizes, bytes in flight, the transport's round-trip estimate.
    fn on_sent(&mut self, _now: Time, _sent: &Sent) -> PacketState {
        PacketState::default()
    }

    fn on_app_limited(&mut self, _now: Time, _in_flight: u64) {}
    fn on_persistent_congestion(&mut self, _now: Time) {}
    fn on_discarded(&mut self, _now: Time, _packet_number: u64) {}

    fn on_event(&mut self, event: &Event<'_>) {
        if event.rtt.min.is_some() {
            self.srtt = Some(event.rtt.smoothed);
        }
    }

    /// Forgets the round-trip time of the former address.
    fn on_path_changed(&mut self, _now: Time, change: PathChange) {
        if change == PathChange::Address {
            self.srtt = None;
        }
    }

    fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu;
    }

    fn cwnd(&self) -> u64 {
        self.packets.saturating_mul(self.mtu)
    }

    /// Sends one window in nine tenths of a round trip: evenly, and fast enough to keep the window full.
    fn pacing_rate(&self) -> Option<u64> {
        let nanos = self.srtt?.as_nanos().max(1_000) * 9 / 10;
        let rate = u128::from(self.cwnd()) * 1_000_000_000 / nanos;
        Some(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
    }

    fn send_quantum(&self) -> u64 {
        (BURST * self.mtu).min(65_536).max(self.mtu)
    }

    /// Returns congestion avoidance at all times, because the algorithm searches for no window.
    fn state(&self) -> State {
        State::CongestionAvoidance
    }

    fn ssthresh(&self) -> Option<u64> {
        None
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: self.cwnd(),
            ssthresh: None,
            pacing_rate: self.pacing_rate(),
            state: self.state(),
            epoch: None,
            idle_excluded: Duration::ZERO,
            congestion_events: 0,
            model: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_cc::Value;
    use sluicegate_sim::properties;
    use sluicegate_sim::{Bottleneck, Flow, FlowOutcome, Rng, Sample, Simulation, Source};

    use super::*;

    /// Ten seconds over 10 Mbit/s with a round trip of 48 ms: 50 datagrams of 1,200 bytes fill it.
    fn run(window: u64) -> FlowOutcome {
        let mut options = ALGORITHM.defaults();
        options.set(WINDOW.name, Value::Integer(window)).expect("within bounds");
        let init = Init { mtu: 1_200, initial_window_packets: 10, seed: 1 };
        let bottleneck = Bottleneck::new(10_000_000, Duration::from_millis(48), 1.0);
        let mut outcomes = Simulation::new(bottleneck, 1)
            .with(Flow::new(Source::Endless), ALGORITHM.controller(&init, &options))
            .run(Duration::from_secs(10));
        outcomes.remove(0)
    }

    fn megabits(outcome: &FlowOutcome) -> f64 {
        outcome.throughput(Duration::from_secs(1), Duration::from_secs(10)) / 1e6
    }

    /// The first window leaves at once, as there is no round trip yet to spread it over; some of it may not fit.
    #[test]
    fn window_that_fits_fills_the_path_and_loses_nothing_after_the_start() {
        let outcome = run(60);
        assert!(megabits(&outcome) > 9.9, "{}", megabits(&outcome));
        let late = |s: &&Sample| s.at >= Duration::from_secs(1);
        let early_losses = outcome.samples.iter().find(late).map(|s| s.lost_packets);
        assert_eq!(early_losses, Some(outcome.lost_packets));
        assert!(outcome.lost_packets <= 10, "{}", outcome.lost_packets);
        assert_eq!(outcome.max_in_flight, 60 * 1_200);
    }

    #[test]
    fn half_the_window_is_half_the_rate() {
        let outcome = run(25);
        assert!((4.5..5.1).contains(&megabits(&outcome)), "{}", megabits(&outcome));
    }

    #[test]
    fn window_that_overflows_the_queue_loses_and_goes_on() {
        let outcome = run(200);
        assert!(outcome.lost_packets > 1_000, "{}", outcome.lost_packets);
        assert_eq!(outcome.min_cwnd, 200 * 1_200);
    }

    #[test]
    fn no_string_of_bytes_breaks_the_contract() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let bytes: Vec<u8> = (0..200).map(|_| rng.bits().to_le_bytes()[0]).collect();
            let outcome = properties::any_bytes(&ALGORITHM, &bytes);
            assert!(outcome.is_ok(), "seed {seed}: {outcome:?}");
        }
    }
}
