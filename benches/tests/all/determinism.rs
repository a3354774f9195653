//! The same scenario gives the same outcome, on any thread.

use std::fmt;
use std::thread;

use sluicegate_benches::collapse::{LossOn, scenario};
use sluicegate_benches::virtual_net::{Control, Outcome, run};

fn outcome(control: Control, seed: u64) -> Outcome {
    run(&scenario(control, LossOn::BothWays, seed)).expect("both ends can be set up").remove(0)
}

/// An outcome without its trace.
struct Brief<'a>(&'a Outcome);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { completed, final_cwnd, lost_packets, .. } = self.0;
        write!(f, "{completed:?}, window {final_cwnd}, {lost_packets} lost")
    }
}

#[test]
fn same_seed_gives_the_same_outcome() {
    for control in Control::ours().chain(Control::quic()) {
        let first = outcome(control, 5);
        let again = thread::spawn(move || outcome(control, 5)).join().expect("no panic");
        assert!(first == again, "{control}: {} and {}", Brief(&first), Brief(&again));
    }
}

#[test]
fn other_seeds_give_other_outcomes() {
    for control in Control::ours() {
        assert!(outcome(control, 5) != outcome(control, 6), "{control}");
    }
}
