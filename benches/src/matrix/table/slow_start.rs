//! What ends the first slow start: CUBIC with each kind of it.

use sluicegate_sim::{Bottleneck, Source};

use super::plain::ramps;
use super::terms::{END, MBIT, ZERO, alone, always, bound, least, long, most, ms, secs, share};
use crate::matrix::bound::{Bound, Limit, Measure, Who};
use crate::matrix::scenario::{For, Scenario};
use crate::matrix::slow_starts::{BY_HYSTART, BY_SEARCH, HYSTART, SEARCH, STANDARD};

const KINDS: For = For::Only(&[STANDARD, HYSTART, SEARCH]);

const fn report_only(measure: Measure) -> Bound {
    bound(Who::All, measure, Limit::ReportOnly)
}

pub(super) fn slow_start() -> Vec<Scenario> {
    [queues(), varying_delay(), downloads()].concat()
}

/// Sources of the bounds where the queue is longer than the BDP.
const DEEP: &str = "draft-chung-ccwg-search-09, abstract: ends before packets are lost; RFC 9406 §5: half of the retransmissions; \
                    RFC 9002 §7.3.1: full in ten round trips";

/// Queues of different lengths. Six doublings lead from ten datagrams beyond the BDP. The handshake and the request take two round
/// trips, the way of the first datagram and pacing one each: ten in all.
fn queues() -> Vec<Scenario> {
    let row = |name, parameters, queue, source, mut bounds: Vec<Bound>| {
        bounds.extend([
            most(Who::All, Measure::Filled, 0.4),
            least(Who::All, share(secs(1), END), 0.95),
        ]);
        Scenario {
            tried: KINDS,
            simulator: always(1, secs(4)),
            end_to_end: long(1, secs(4)),
            bounds,
            source,
            ..alone(name, parameters, Bottleneck::new(100 * MBIT, ms(40), queue), Source::Endless)
        }
    };
    let deep = || {
        vec![
            most(Who::Only(BY_SEARCH), Measure::LostPackets, 0.0),
            most(Who::Only(BY_HYSTART), Measure::LostOverStandard, 0.5),
        ]
    };
    vec![
        row(
            "slow-start-1-bdp",
            "100 Mbit/s, 40 ms, 1 BDP, 4 s",
            1.0,
            "RFC 9406 §5: half of the retransmissions, at 100 Mbit/s with this queue; RFC 9002 §7.3.1: full in ten round trips",
            vec![
                report_only(Measure::LostPackets),
                most(Who::Only(BY_HYSTART), Measure::LostOverStandard, 0.5),
            ],
        ),
        row("slow-start-4-bdp", "the same, 4 BDP", 4.0, DEEP, deep()),
        row("slow-start-8-bdp", "the same, 8 BDP", 8.0, DEEP, deep()),
    ]
}

/// Delays that rise or vary without load.
fn varying_delay() -> Vec<Scenario> {
    let rises = Bottleneck {
        delay_steps: vec![(ms(120), ms(30))],
        ..Bottleneck::new(100 * MBIT, ms(40), 1.0)
    };
    let varies = Bottleneck { jitter: ms(10), ..Bottleneck::new(100 * MBIT, ms(40), 8.0) };
    vec![
        Scenario {
            tried: KINDS,
            simulator: always(1, secs(4)),
            end_to_end: long(1, secs(4)),
            bounds: vec![
                most(Who::Except(BY_HYSTART), Measure::Filled, 0.54),
                report_only(share(ZERO, secs(2))),
                report_only(Measure::LostPackets),
            ],
            source: "RFC 9002 §7.3.1: full in ten round trips, three of 40 and seven of 60 ms; draft-chung-ccwg-search-09 §1: HyStart ends \
                     too early where the delay rises without load",
            ..alone(
                "slow-start-longer-path",
                "100 Mbit/s, 40 ms, from 0.12 s on 60 ms; the second figure is of the first 2 s",
                rises,
                Source::Endless,
            )
        },
        Scenario {
            tried: KINDS,
            simulator: long(20, secs(4)),
            end_to_end: long(3, secs(4)),
            bounds: vec![
                most(Who::All, Measure::Filled, 0.5),
                least(Who::All, share(secs(1), END), 0.95),
                report_only(Measure::LostPackets),
            ],
            source: "RFC 9406, abstract: jitter does not end it early; draft-chung-ccwg-search-09, abstract: ends once the path is full; \
                     RFC 9002 §7.3.1: full in ten round trips of at most 50 ms",
            ..alone(
                "slow-start-jitter",
                "100 Mbit/s, 40 ± 10 ms, order kept, 8 BDP",
                varies,
                Source::Endless,
            )
        },
    ]
}

/// The downloads of the rows "ramp-up".
fn downloads() -> Vec<Scenario> {
    let names = ["slow-start-100m", "slow-start-1g"];
    let rows = names.into_iter().zip(ramps());
    rows.map(|(name, mut ramp)| {
        ramp.bounds.push(report_only(Measure::LostPackets));
        Scenario { name, tried: KINDS, scalable: false, end_to_end: long(1, secs(20)), ..ramp }
    })
    .collect()
}
