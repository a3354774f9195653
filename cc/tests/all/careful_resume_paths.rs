//! Careful resume on simulated paths: what it gains, and what it costs where it is wrong.

use std::time::Duration;

use sluicegate_cc::{Algorithm, MAX_WINDOW, PathChange, ResumeEvent};
use sluicegate_sim::{Bottleneck, Flow, FlowOutcome, Simulation, Source};

use crate::test_support::memory::Memory;
use crate::test_support::{MBIT, alone, loss_based, ms, run_one, secs};

const MB: u64 = 1_000_000;

/// A path over a geostationary satellite.
fn satellite(mbit: u64) -> Bottleneck {
    Bottleneck::new(mbit * MBIT, ms(600), 1.0)
}

/// Returns what a download of `size` bytes over `path` leaves.
fn after(algorithm: &Algorithm, path: &Bottleneck, size: u64) -> Memory {
    let memory = Memory::default();
    let first = download(algorithm, &memory, path, size);
    assert!(first.completed.is_some(), "{}", algorithm.name);
    assert_eq!(memory.events(), [], "{}", algorithm.name);
    memory
}

fn download(algorithm: &Algorithm, memory: &Memory, path: &Bottleneck, size: u64) -> FlowOutcome {
    let controller = memory.resume(algorithm);
    run_one(controller, path, Source::Bulk(size), secs(120), 1)
}

fn round_trips(outcome: &FlowOutcome) -> f64 {
    let took = outcome.completed.expect("complete");
    took.as_secs_f64() / ms(600).as_secs_f64()
}

/// The time of 1 MB may fall by 62 % (RFC 9959 §1.4).
#[test]
fn second_download_by_satellite_takes_fewer_round_trips() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let path = satellite(50);
        // A short download knows only what slow start has reached, a long one the path.
        for (first, size, fewer) in [
            (3 * MB, MB, 2.0),
            (3 * MB, 2 * MB, 2.0),
            (3 * MB, 3 * MB, 2.0),
            (30 * MB, MB, 3.0),
            (30 * MB, 2 * MB, 3.0),
            (30 * MB, 3 * MB, 3.0),
        ] {
            let memory = after(&algorithm, &path, first);
            let plain = alone(&algorithm, &path, Source::Bulk(size), secs(60), 1);
            let second = download(&algorithm, &memory, &path, size);
            let (plain, resumed) = (round_trips(&plain), round_trips(&second));
            println!(
                "{name}: {size} bytes in {plain:.1} round trips, after {first} in {resumed:.1}"
            );
            assert!(resumed <= plain - fewer, "{name}: {resumed} of {plain}");
            // The shortest one ends before its capacity is validated.
            let results = [ResumeEvent::Validated, ResumeEvent::Undecided];
            let events = results.map(|result| vec![ResumeEvent::Jumped, result]);
            assert!(events.contains(&memory.events()), "{name}");
            assert_eq!(second.lost_packets, 0, "{name}");
        }
    }
}

/// The path has a tenth of the saved capacity, and a queue for a tenth, too. No more than the jump can be lost.
#[test]
fn capacity_that_is_gone_costs_no_more_than_the_jump_and_is_forgotten() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let memory = after(&algorithm, &satellite(50), 30 * MB);
        let jump = memory.contents().saved.expect("saved").cwnd / 2;
        let narrow = satellite(5);
        let plain = alone(&algorithm, &narrow, Source::Bulk(3 * MB), secs(120), 1);
        let second = download(&algorithm, &memory, &narrow, 3 * MB);
        let lost = |outcome: &FlowOutcome| outcome.lost_packets * 1_200;
        println!(
            "{name}: lost {} bytes, plain {}, jump {jump}; took {:?}, plain {:?}",
            lost(&second),
            lost(&plain),
            second.completed,
            plain.completed,
        );
        let events = [ResumeEvent::Jumped, ResumeEvent::Retreated];
        assert_eq!(memory.events(), events, "{name}");
        assert!(lost(&second) <= lost(&plain) + jump, "{name}");
        assert_eq!(second.persistent_congestions, 0, "{name}");
    }
}

#[test]
fn round_trip_of_another_path_leads_to_no_jump() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        for (saved, path) in [(600, 250), (40, 600)] {
            let saved = Bottleneck::new(50 * MBIT, ms(saved), 1.0);
            let memory = after(&algorithm, &saved, 3 * MB);
            let path = Bottleneck::new(50 * MBIT, ms(path), 1.0);
            let plain = alone(&algorithm, &path, Source::Bulk(MB), secs(60), 1);
            let second = download(&algorithm, &memory, &path, MB);
            assert_eq!(memory.events(), [ResumeEvent::RttDiffers], "{name}");
            assert_eq!(second.completed, plain.completed, "{name}");
        }
    }
}

#[test]
fn connection_that_moves_to_another_address_leaves_nothing_for_the_first() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let memory = Memory::default();
        let mut flow = Flow::new(Source::Bulk(10 * MB));
        flow.path_changes = vec![(Duration::from_millis(1_000), PathChange::Address)];
        let outcome = Simulation::new(satellite(50), 1)
            .with(flow, memory.resume_at_most(&algorithm, MAX_WINDOW))
            .run(secs(60));
        assert!(outcome[0].completed.is_some(), "{name}");
        assert_eq!(memory.contents().saved, None, "{name}");
    }
}

/// A long download knows the path better than its first round trips.
#[test]
fn capacity_that_a_long_download_leaves_is_about_that_of_the_path() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let path = Bottleneck::new(50 * MBIT, ms(100), 1.0);
        let memory = Memory::default();
        let controller = memory.resume(&algorithm);
        run_one(controller, &path, Source::Endless, secs(30), 1);
        let saved = memory.contents().saved.expect("saved");
        let bdp = 50 * MBIT / 8 / 10;
        println!("{name}: {} of {bdp} bytes, {:?}", saved.cwnd, saved.min_rtt);
        assert!((bdp / 2..=bdp * 11 / 10).contains(&saved.cwnd), "{name}");
        assert!((ms(100)..ms(125)).contains(&saved.min_rtt), "{name}");
    }
}
