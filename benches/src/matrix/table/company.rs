//! Several flows on one link.

use sluicegate_cc::sim::{Bottleneck, LossWindow, Source};

use super::{BBR, MBIT, OTHERS, alone, always, least, long, ms, secs, stretch};
use crate::matrix::bound::{Measure, Who};
use crate::matrix::scenario::{Cast, For, Scenario};

pub(super) fn company() -> Vec<Scenario> {
    let shared = || Bottleneck::new(50 * MBIT, ms(40), 1.0);
    let alike = |name, parameters, flows| Scenario {
        cast: Cast::Alike {
            flows,
            apart: secs(2),
        },
        simulator: always(1, secs(120)),
        bounds: vec![
            least(OTHERS, Measure::Jain { from: secs(20) }, 0.95),
            least(BBR, Measure::Jain { from: secs(20) }, 0.9),
        ],
        ..alone(name, parameters, shared(), Source::Endless)
    };
    let visited = |name, parameters, efforts| Scenario {
        cast: Cast::Visited,
        simulator: efforts,
        bounds: vec![least(Who::All, stretch(secs(10), true), 0.1)],
        ..alone(name, parameters, changing(), Source::Endless)
    };
    vec![
        alike("fairness-2", "50 Mbit/s, 40 ms, 2 flows, 120 s", 2),
        alike("fairness-6", "the same, 6 flows", 6),
        Scenario {
            cast: Cast::BesideCubic,
            tried: For::EveryoneBut("cubic"),
            simulator: always(1, secs(120)),
            bounds: vec![least(
                Who::All,
                Measure::SmallestShare { from: secs(20) },
                0.2,
            )],
            ..alone(
                "beside-cubic",
                "50 Mbit/s, 40 ms, one flow of CUBIC, 120 s",
                shared(),
                Source::Endless,
            )
        },
        visited(
            "long-run",
            "20 Mbit/s, 40 ± 1 ms, 0.01 % loss, half the rate gone every other minute, flows that come and go, 30 min",
            long(5, secs(1_800)),
        ),
        visited("long-run-short", "the same, 5 min", always(1, secs(300))),
    ]
}

/// Traffic that does not give way takes half the rate every other minute.
fn changing() -> Bottleneck {
    let halves = (0..30).map(|minute| {
        let rate = if minute % 2 == 0 { 20 } else { 10 };
        (secs(60 * minute), rate * MBIT)
    });
    Bottleneck {
        rate: halves.collect(),
        jitter: ms(1),
        loss: vec![LossWindow::always(1e-4)],
        ..Bottleneck::new(20 * MBIT, ms(40), 1.0)
    }
}
