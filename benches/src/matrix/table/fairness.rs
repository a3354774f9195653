//! Several flows over one bottleneck: fairness, and cross traffic that comes and goes.

use sluicegate_sim::{Bottleneck, LossWindow, Source};

use super::terms::{BBR, MBIT, OTHERS, alone, always, least, long, ms, secs, shorter, stretch};
use crate::matrix::bound::{Measure, Who};
use crate::matrix::scenario::{CrossTraffic, For, Scenario};

pub(super) fn fairness() -> Vec<Scenario> {
    let shared = || Bottleneck::new(50 * MBIT, ms(40), 1.0);
    let same_algorithm = |name, parameters, flows, simulator| Scenario {
        cross_traffic: CrossTraffic::SameAlgorithm { flows, apart: secs(2) },
        simulator,
        end_to_end: long(2, secs(120)),
        bounds: vec![
            least(OTHERS, Measure::Jain { from: secs(20) }, 0.95),
            least(BBR, Measure::Jain { from: secs(20) }, 0.9),
        ],
        source: "RFC 9438 §3.3: flows with the same round trip converge to equal shares",
        ..alone(name, parameters, shared(), Source::Endless)
    };
    let coming_and_going = |name, parameters, simulator, end_to_end| Scenario {
        cross_traffic: CrossTraffic::ComingAndGoing,
        simulator,
        end_to_end,
        bounds: vec![least(Who::All, stretch(secs(10), true), 0.1)],
        source: "ours: never stuck; a third is the fair share",
        ..alone(name, parameters, changing(), Source::Endless)
    };
    vec![
        same_algorithm("fairness-2", "50 Mbit/s, 40 ms, 2 flows, 120 s", 2, long(20, secs(120))),
        same_algorithm("fairness-6", "the same, 6 flows", 6, shorter(20, 1, secs(120))),
        Scenario {
            cross_traffic: CrossTraffic::Cubic,
            tried: For::EveryoneBut("cubic"),
            scalable: true,
            simulator: long(20, secs(120)),
            end_to_end: long(2, secs(120)),
            bounds: vec![least(Who::All, Measure::SmallestShare { from: secs(20) }, 0.5)],
            source: "picoquictest/cc_compete_test.c: nobody below a quarter of the link",
            ..alone(
                "beside-cubic",
                "50 Mbit/s, 40 ms, one flow of CUBIC, 120 s",
                shared(),
                Source::Endless,
            )
        },
        coming_and_going(
            "long-run",
            "20 Mbit/s, 40 ± 1 ms, 0.01 % loss, half the rate gone every other minute, flows that come and go, 30 min",
            long(5, secs(1_800)),
            None,
        ),
        coming_and_going(
            "long-run-short",
            "the same, 5 min",
            always(1, secs(300)),
            long(2, secs(300)),
        ),
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
