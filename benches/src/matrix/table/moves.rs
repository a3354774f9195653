//! Clients whose address changes.

use sluicegate_cc::PathChange;
use sluicegate_sim::{Bottleneck, Source};

use super::terms::{END, MBIT, alone, least, ms, secs, share, shorter};
use crate::matrix::bound::Who;
use crate::matrix::scenario::Scenario;

/// A NAT that gives a client another port or another address. End to end, what is on the way to the old one then is lost.
pub(super) fn moves() -> Vec<Scenario> {
    let row = |name, parameters, change, from, source| Scenario {
        path_changes: vec![(secs(5), change)],
        simulator: shorter(20, 1, secs(10)),
        end_to_end: shorter(20, 1, secs(10)),
        bounds: vec![least(Who::All, share(from, END), 0.9)],
        source,
        ..alone(name, parameters, Bottleneck::new(20 * MBIT, ms(40), 1.0), Source::Endless)
    };
    vec![
        row(
            "new-port",
            "20 Mbit/s, 40 ms, the client's port changes after 5 s",
            PathChange::Port,
            ms(5_500),
            "RFC 9000 §9.4: a change of the port alone keeps the window; end to end, what is on the way is lost",
        ),
        row(
            "new-address",
            "the same, its IP address",
            PathChange::Address,
            secs(6),
            "RFC 9000 §9.4: initial window and round-trip time; RFC 9002 §7.3.1: four round trips of slow start",
        ),
    ]
}
