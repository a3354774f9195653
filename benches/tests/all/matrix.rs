//! Every algorithm in every scenario: what fails must be known to fail, and what is known to fail must still do so.

use std::fs;
use std::path::Path;

use sluicegate_benches::matrix::{
    Cell, Choice, EXPECTED, Expected, Layout, cells, control_named, known_failures, report,
    scenarios, surprises,
};
use sluicegate_benches::virtual_net::Control;

const THREADS: usize = 2;

fn run(core: bool) -> Vec<Cell> {
    let scenarios = scenarios();
    let choice = Choice {
        control: None,
        scenario: None,
        place: None,
        seed: None,
        core,
        plots: None,
        threads: THREADS,
    };
    let cells = cells(&scenarios, &choice).expect("both ends can be set up");
    println!("{}", report(&scenarios, &cells, Layout::Padded));
    cells
}

fn nothing_surprises(cells: &[Cell]) {
    let found = surprises(cells, EXPECTED);
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// Takes long: every algorithm runs through every scenario of the core, in the simulator, over real connections or both.
#[test]
fn core_of_the_matrix_holds() {
    let cells = run(true);
    for control in Control::ours() {
        let own = cells.iter().filter(|cell| cell.control == control).count();
        let least = if control.is_scalable() { 10 } else { 25 };
        assert!(own >= least, "{control}: {own} cells");
    }
    nothing_surprises(&cells);
}

#[test]
#[ignore = "long: half an hour of simulated time, and minutes of real connections"]
fn whole_matrix_holds() {
    nothing_surprises(&run(false));
}

#[test]
fn expected_failures_are_of_the_matrix_and_stand_in_the_results() {
    let scenarios = scenarios();
    let known: Vec<_> = scenarios.iter().map(|scenario| scenario.name).collect();
    for entry in EXPECTED {
        assert!(known.contains(&entry.scenario), "{entry:?}");
        for control in entry.controls {
            assert!(control_named(control, &scenarios).is_some(), "{entry:?}");
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cc/RESULTS.md");
    let results = fs::read_to_string(path).expect("is there");
    let table = known_failures(EXPECTED);
    assert!(results.contains(&table), "cc/RESULTS.md must have:\n{table}");
}

#[test]
fn failure_that_is_not_listed_or_ended_is_a_surprise() {
    let scenarios = scenarios();
    let choice = Choice {
        control: Some(Control::of("reno")),
        scenario: Some("rate-fall"),
        place: None,
        seed: Some(0),
        core: true,
        plots: None,
        threads: THREADS,
    };
    let cells = cells(&scenarios, &choice).expect("both ends can be set up");
    assert_eq!(cells.len(), 2);
    // One bound fails in both places, and the other holds.
    let unlisted = surprises(&cells, &[]);
    assert_eq!(unlisted.len(), 2, "{unlisted:?}");
    assert!(unlisted[0].contains("--scenario rate-fall --place simulator --algorithm reno"));
    let mut moved = EXPECTED.to_vec();
    for entry in &mut moved {
        entry.range = (2.0, 3.0);
    }
    assert_eq!(surprises(&cells, &moved).len(), 2);
    let of_scenario = EXPECTED
        .iter()
        .find(|entry| entry.scenario == "rate-fall" && entry.controls.contains(&"reno"));
    let ended = Expected { measure: "of the link", ..*of_scenario.expect("known to fail") };
    let ended = surprises(&cells, &[EXPECTED, &[ended]].concat());
    assert_eq!(ended.len(), 2, "{ended:?}");
    assert!(ended.iter().all(|surprise| surprise.contains("holds by now")));
    assert!(surprises(&cells, EXPECTED).is_empty());
}
