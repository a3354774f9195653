//! L4S (RFC 9330): Prague in a queue that marks for it, beside a classic flow, and where a queue marks but is not one of L4S.

use std::time::Duration;

use sluicegate_sim::{Aqm, Bottleneck, Source};

use super::terms::{END, MBIT, PRAGUE, alone, least, long, most, ms, secs, share, shorter};
use crate::matrix::bound::Measure;
use crate::matrix::scenario::{CrossTraffic, For, Scenario};
use crate::virtual_net::Control;

const ALONE: For = For::Only(&[Control::of("prague")]);

/// Delay at which the queue of L4S marks everything (RFC 9332 appendix A.1).
const MARKS_ALL: Duration = Duration::from_micros(1_200);

fn coupled(rtt: Duration) -> Bottleneck {
    Bottleneck { aqm: Some(Aqm::DualPi2), ..Bottleneck::new(50 * MBIT, rtt, 10.0) }
}

pub(super) fn l4s() -> Vec<Scenario> {
    [alone_in_its_queue(), beside_cubic()].concat()
}

fn alone_in_its_queue() -> Vec<Scenario> {
    let one_flow = |name, parameters, rtt: Duration| Scenario {
        tried: ALONE,
        scalable: true,
        simulator: shorter(20, 1, secs(30)),
        end_to_end: long(2, secs(30)),
        bounds: vec![
            least(PRAGUE, share(secs(5), END), 0.9),
            most(
                PRAGUE,
                Measure::Delay { from: secs(5) },
                1.0 + MARKS_ALL.as_secs_f64() / rtt.as_secs_f64(),
            ),
        ],
        source: "RFC 9330 §1: a millisecond of queue, and the link in full; RFC 9332 appendix A.1: everything is marked from 1.2 ms on",
        ..alone(name, parameters, coupled(rtt), Source::Endless)
    };
    vec![
        one_flow("l4s", "50 Mbit/s, 40 ms, DualPI2, low-latency queue", ms(40)),
        one_flow("l4s-near", "the same, 10 ms", ms(10)),
        Scenario {
            tried: ALONE,
            scalable: true,
            cross_traffic: CrossTraffic::SameAlgorithm { flows: 2, apart: secs(2) },
            simulator: shorter(20, 1, secs(120)),
            end_to_end: long(2, secs(120)),
            bounds: vec![least(PRAGUE, Measure::Jain { from: secs(20) }, 0.95)],
            source: "RFC 9331 §4.3: no more bias than Reno; Jain's index as fairness-2",
            ..alone(
                "l4s-fairness-2",
                "50 Mbit/s, 40 ms, DualPI2, 2 flows, 120 s",
                coupled(ms(40)),
                Source::Endless,
            )
        },
    ]
}

fn beside_cubic() -> Vec<Scenario> {
    vec![
        Scenario {
            tried: ALONE,
            scalable: true,
            cross_traffic: CrossTraffic::Cubic,
            simulator: shorter(20, 1, secs(120)),
            end_to_end: long(2, secs(120)),
            bounds: vec![least(PRAGUE, Measure::SmallestShare { from: secs(20) }, 2.0 / 3.0)],
            source: "RFC 9332 §2.1: the coupling makes rates about equal; here within a factor of two",
            ..alone(
                "l4s-beside-cubic",
                "50 Mbit/s, 40 ms, DualPI2, one flow of CUBIC in the classic queue, 120 s",
                coupled(ms(40)),
                Source::Endless,
            )
        },
        Scenario {
            tried: ALONE,
            scalable: true,
            cross_traffic: CrossTraffic::Cubic,
            simulator: shorter(20, 1, secs(120)),
            bounds: vec![least(PRAGUE, Measure::SmallestShare { from: secs(20) }, 0.5)],
            source: "RFC 9331 §4.3: adapts where a shared queue marks but is not one of L4S; the bound of beside-cubic",
            ..alone(
                "classic-ecn-beside-cubic",
                "50 Mbit/s, 40 ms, CE marks above half a BDP of queue, one flow of CUBIC beside, 120 s",
                Bottleneck { ce_above: Some(125_000), ..Bottleneck::new(50 * MBIT, ms(40), 2.0) },
                Source::Endless,
            )
        },
    ]
}
