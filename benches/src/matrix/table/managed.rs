//! Queues with AQM.

use sluicegate_sim::{Aqm, Bottleneck, Source};

use super::terms::{
    BBR, CUBIC, END, MBIT, PRAGUE, RENO, alone, least, long, most, ms, secs, share, shorter,
};
use crate::matrix::bound::{Bound, Measure, Who};
use crate::matrix::scenario::{CrossTraffic, For, Scenario};
use crate::virtual_net::Control;

/// Shares of the link of one flow whose cuts leave an empty queue: the mean between β and 1 on a straight line, and for BBR what
/// pacing margin, drain and round-trip probes leave. These queues are not ones of L4S, so Prague's bound is CUBIC's.
fn shares() -> [Bound; 4] {
    let after = share(secs(5), END);
    [
        least(RENO, after, 0.75),
        least(CUBIC, after, 0.85),
        least(PRAGUE, after, 0.85),
        least(BBR, after, 0.9),
    ]
}

fn managed(aqm: Aqm) -> Bottleneck {
    Bottleneck { aqm: Some(aqm), ..Bottleneck::new(50 * MBIT, ms(40), 10.0) }
}

/// One flow behind each AQM, with packets dropped and with packets marked. The delay that it holds comes on top of 40 ms.
pub(super) fn one_flow() -> Vec<Scenario> {
    let row = |name, parameters, aqm: Aqm, delay, source| {
        let mut bounds = shares().to_vec();
        bounds.push(most(Who::All, Measure::Delay { from: secs(5) }, delay));
        Scenario {
            scalable: aqm.marks() && aqm != Aqm::DualPi2,
            simulator: shorter(20, 1, secs(30)),
            bounds,
            source,
            ..alone(name, parameters, managed(aqm), Source::Endless)
        }
    };
    // quiche's CUBIC takes back its cut after each loss that stands alone, and CoDel's do: its window has no end.
    let with_connections = |scenario| Scenario {
        tried: For::EveryoneAnd(Control::QuicheBbr2),
        end_to_end: long(1, secs(30)),
        ..scenario
    };
    vec![
        with_connections(row(
            "codel",
            "50 Mbit/s, 40 ms, CoDel, drops; the target is 5 ms",
            Aqm::CoDel { ecn: false },
            1.125,
            "RFC 8289 §4.4; shares: RFC 9002 §7.3.2, RFC 9438 §4.6 (mean of β and 1), draft-ietf-ccwg-bbr-06 §5.6.1 and §5.6.2",
        )),
        row("codel-ecn", "the same, CE marks", Aqm::CoDel { ecn: true }, 1.125, "as above"),
        with_connections(row(
            "pie",
            "50 Mbit/s, 40 ms, PIE, drops; the reference is 15 ms",
            Aqm::Pie { ecn: false },
            1.375,
            "RFC 8033 §4.4; shares as above",
        )),
        row("pie-ecn", "the same, CE marks", Aqm::Pie { ecn: true }, 1.375, "as above"),
        row(
            "dual-pi2",
            "50 Mbit/s, 40 ms, DualPI2, CE marks, classic queue; the target is 15 ms",
            Aqm::DualPi2,
            1.375,
            "RFC 9332 §2.4 and appendix A.1; shares as above",
        ),
    ]
}

/// A flow of CUBIC beside, each in a queue of its own.
pub(super) fn fair_queueing() -> Vec<Scenario> {
    let row = |name, parameters, ecn| Scenario {
        cross_traffic: CrossTraffic::Cubic,
        tried: For::Everyone,
        scalable: ecn,
        simulator: long(20, secs(60)),
        bounds: vec![
            least(Who::All, Measure::SmallestShare { from: secs(5) }, 0.75),
            most(Who::All, Measure::Delay { from: secs(5) }, 1.125),
        ],
        source: "RFC 8290 §1: as if alone on half of the link; RFC 8289 §4.4; RFC 9002 §7.3.2 (mean of β and 1)",
        ..alone(name, parameters, managed(Aqm::FqCoDel { ecn }), Source::Endless)
    };
    vec![
        row("fq-codel", "50 Mbit/s, 40 ms, FQ-CoDel, drops, one flow of CUBIC beside", false),
        row("fq-codel-ecn", "the same, CE marks", true),
    ]
}
