use super::*;
use crate::{Pages, ReceiveWindow, Source};
use sluicegate_cc::Registry;

fn run(seed: u64) -> Vec<FlowOutcome> {
    let bottleneck = Bottleneck {
        loss: vec![crate::LossWindow::always(0.01)],
        jitter: Duration::from_millis(2),
        ..Bottleneck::new(10_000_000, Duration::from_millis(40), 1.0)
    };
    let mut simulation = Simulation::new(bottleneck, seed);
    for algorithm in &Registry::builtin() {
        let init = sluicegate_cc::Init { mtu: 1_200, initial_window_packets: 10, seed };
        let controller = algorithm.controller(&init, &algorithm.defaults());
        simulation = simulation.with(Flow::new(Source::Bulk(1_000_000)), controller);
    }
    simulation.run(Duration::from_secs(60))
}

#[test]
fn same_seed_gives_the_same_run_and_another_seed_another() {
    let shape = |outcomes: &[FlowOutcome]| {
        outcomes.iter().map(|o| (o.completed, o.sent_packets)).collect::<Vec<_>>()
    };
    assert_eq!(shape(&run(7)), shape(&run(7)));
    assert_ne!(shape(&run(7)), shape(&run(8)));
}

#[test]
fn everything_offered_arrives_once() {
    for outcome in run(1) {
        assert!(outcome.completed.is_some());
        assert_eq!(outcome.delivered, 1_000_000u64.div_ceil(1_200) * 1_200);
    }
}

/// Runs one flow of CUBIC over 10 Mbit/s and 40 ms, and returns its result.
fn alone(flow: Flow, limit: Duration) -> FlowOutcome {
    let bottleneck = Bottleneck::new(10_000_000, Duration::from_millis(40), 4.0);
    let registry = Registry::builtin();
    let cubic = registry.find("cubic").expect("built in");
    let init = sluicegate_cc::Init { mtu: 1_200, initial_window_packets: 10, seed: 0 };
    let controller = cubic.controller(&init, &cubic.defaults());
    let mut outcomes = Simulation::new(bottleneck, 0).with(flow, controller).run(limit);
    outcomes.remove(0)
}

#[test]
fn receive_window_bounds_bytes_in_flight_and_a_reader_the_rate() {
    let flow = |bits_per_second| Flow {
        receive_window: Some(ReceiveWindow { bytes: 24_000, bits_per_second }),
        ..Flow::new(Source::Bulk(2_000_000))
    };
    let limit = Duration::from_secs(60);
    let all = alone(flow(u64::MAX), limit);
    assert_eq!(all.max_in_flight, 24_000);
    // A window a round trip, 4.8 Mbit/s.
    let done = all.completed.expect("in time").as_secs_f64();
    assert!((3.3..3.9).contains(&done), "{done}");
    let slow = alone(flow(1_000_000), limit);
    let done = slow.completed.expect("never stuck").as_secs_f64();
    assert!((15.5..16.5).contains(&done), "{done}");
}

#[test]
fn pages_follow_one_another() {
    let flow = Flow {
        pages: Some(Pages { bytes: 12_000, think: Duration::from_secs(1) }),
        ..Flow::new(Source::Bulk(60_000))
    };
    let outcome = alone(flow, Duration::from_secs(60));
    // Five windows of ten datagrams, a round trip each, and four pauses.
    let ms = outcome.completed.expect("in time").as_millis();
    assert!((4_150..4_300).contains(&ms), "{ms}");
    assert_eq!(outcome.pages.len(), 5);
    for page in outcome.pages {
        let ms = page.as_millis();
        assert!((40..60).contains(&ms), "{ms}");
    }
}
