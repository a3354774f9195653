//! Loss, changes and disorder on the link.

use std::time::Duration;

use sluicegate_sim::{Bottleneck, LossWindow, Policer, Reorder, Source};

use super::terms::{
    BBR, END, MBIT, OTHERS, ZERO, alone, always, bound, least, long, most, ms, secs, share, shorter,
};
use crate::matrix::bound::{Limit, Measure, Who};
use crate::matrix::scenario::{For, Scenario};
use crate::virtual_net::Control;

/// Returns the tables of RFC 9438 §5.1 for 100 ms, and 1.2/√p where they end; BBR's bounds are shares of the link. quiche's
/// CUBIC takes back its cut after each loss that stands alone: its window has no end, and neither have its runs.
pub(super) fn random_loss() -> Vec<Scenario> {
    let window = |who, datagrams| {
        let from = secs(20);
        bound(who, Measure::MeanWindow { from }, Limit::Near(datagrams))
    };
    let row = |name, parameters, p: f64, (cubic, reno), bbr: Limit| {
        let bounds = vec![
            window(Who::Only(&["cubic"]), cubic),
            window(Who::Only(&["reno"]), reno),
            bound(BBR, share(secs(5), END), bbr),
        ];
        let bottleneck = Bottleneck {
            loss: vec![LossWindow::always(p)],
            ..Bottleneck::new(100 * MBIT, ms(100), 1.0)
        };
        Scenario {
            tried: For::EveryoneAnd(Control::QuicheBbr2),
            simulator: always(4, secs(300)),
            end_to_end: long(2, secs(60)),
            bounds,
            source: "RFC 9438 §5.1, tables 1 and 2; draft-ietf-ccwg-bbr-06 §5.5.10.2: less than 2 % lost",
            ..alone(name, parameters, bottleneck, Source::Endless)
        }
    };
    vec![
        row(
            "loss-0.01",
            "100 Mbit/s, 100 ms, p = 0.01 %",
            1e-4,
            (187.0, 120.0),
            Limit::AtLeast(0.95),
        ),
        row("loss-0.1", "p = 0.1 %", 1e-3, (38.0, 38.0), Limit::AtLeast(0.95)),
        row("loss-1", "p = 1 %", 1e-2, (12.0, 12.0), Limit::AtLeast(0.8)),
        row("loss-2", "p = 2 %", 2e-2, (8.5, 8.5), Limit::AtLeast(0.8)),
    ]
}

pub(super) fn changes() -> Vec<Scenario> {
    let clean = Bottleneck::new(10 * MBIT, ms(40), 1.0);
    let rise = Bottleneck { rate: vec![(ZERO, MBIT / 10), (secs(5), 10 * MBIT)], ..clean.clone() };
    let fall = Bottleneck { rate: vec![(ZERO, 10 * MBIT), (secs(10), MBIT)], ..clean };
    let drained = Measure::Drained { at: secs(10), below: 10_000 };
    let dark = Bottleneck {
        loss: vec![LossWindow { from: secs(5), until: secs(7), probability: 1.0 }],
        ..Bottleneck::new(20 * MBIT, ms(30), 1.0)
    };
    vec![
        Scenario {
            simulator: always(1, secs(60)),
            end_to_end: always(1, secs(60)),
            bounds: vec![most(Who::All, Measure::Done, 20.0)],
            source: "below the 50 s of google/quiche, bbr3_simulator_test.cc",
            ..alone(
                "rate-rise",
                "10 MB, 100 kbit/s, after 5 s 10 Mbit/s, 40 ms, queue 50 KB",
                rise,
                Source::Bulk(10_000_000),
            )
        },
        Scenario {
            simulator: always(1, secs(25)),
            end_to_end: always(1, secs(25)),
            bounds: vec![most(Who::All, drained, 3.0), least(Who::All, share(secs(13), END), 0.9)],
            source: "ours: no text names a time; RFC 9438 §4.6: a queue of more than three BDP is never empty",
            ..alone(
                "rate-fall",
                "10 Mbit/s, after 10 s 1 Mbit/s, 40 ms, queue 50 KB; drained is to 10 KB",
                fall,
                Source::Endless,
            )
        },
        Scenario {
            simulator: always(1, secs(15)),
            end_to_end: always(1, secs(15)),
            bounds: vec![least(Who::All, share(secs(10), secs(11)), 0.9)],
            source: "RFC 9002 §6.2.1, §7.3.1: an outage costs at most its length again, then slow start",
            ..alone(
                "blackout",
                "20 Mbit/s, 30 ms, nothing gets through for 2 s; the fourth second after",
                dark,
                Source::Endless,
            )
        },
    ]
}

pub(super) fn policer() -> Vec<Scenario> {
    let policed = Bottleneck {
        policer: Some(Policer { bits_per_second: 10 * MBIT, burst_bytes: 50_000 }),
        ..Bottleneck::new(100 * MBIT, ms(40), 1.0)
    };
    vec![Scenario {
        simulator: always(1, secs(60)),
        bounds: vec![
            least(Who::All, share(secs(10), END), 0.8),
            most(OTHERS, Measure::Loss { from: secs(10) }, 0.05),
            most(BBR, Measure::Loss { from: secs(10) }, 0.1),
        ],
        source: "below the 30 % lost of google/quiche, bbr3_simulator_test.cc; RFC 9002 §7.3.2: the mean of β and 1",
        ..alone(
            "policer",
            "bucket of 10 Mbit/s and 50 KB on 100 Mbit/s, 40 ms, 60 s",
            policed,
            Source::Endless,
        )
    }]
}

pub(super) fn disorder() -> Vec<Scenario> {
    let clean = Bottleneck::new(50 * MBIT, ms(40), 1.0);
    let reordered =
        |by| Bottleneck { reorder: Some(Reorder { probability: 0.02, by }), ..clean.clone() };
    let held = Bottleneck { ack_hold: ms(10), ..clean.clone() };
    let uneven = Bottleneck { jitter: ms(5), ..clean.clone() };
    let marking = Bottleneck { ce_above: Some(60_000), ..Bottleneck::new(20 * MBIT, ms(40), 10.0) };
    let row = |name, parameters, bottleneck| Scenario {
        simulator: always(1, secs(60)),
        end_to_end: shorter(1, 1, secs(10)),
        bounds: vec![least(Who::All, share(secs(1), END), 0.9)],
        source: "RFC 9002 §7.3.2, RFC 9438 §4.6: nothing is lost, and β of two BDP fills the link",
        ..alone(name, parameters, bottleneck, Source::Endless)
    };
    vec![
        row("ack-aggregation", "50 Mbit/s, 40 ms, ACKs held 10 ms", held),
        row("jitter", "50 Mbit/s, 40 ms ± 5 ms, order kept", uneven),
        row(
            "reordering",
            "50 Mbit/s, 40 ms, 2 % late by 0.5 ms: two packets",
            reordered(Duration::from_micros(500)),
        ),
        row("reordering-deep", "the same, late by 1 ms: five packets", reordered(ms(1))),
        row("reordering-20", "the same, late by 4 ms: twenty packets", reordered(ms(4))),
        Scenario {
            scalable: true,
            simulator: always(1, secs(30)),
            bounds: vec![
                least(Who::All, share(secs(2), END), 0.9),
                most(Who::All, Measure::Loss { from: ZERO }, 0.0),
            ],
            source: "RFC 3168 §5: marks replace losses; RFC 9002 §7.3.2: 60 KB and a BDP of 100 KB, halved, are four fifths",
            ..alone(
                "ce-marks",
                "20 Mbit/s, 40 ms, CE marks above 60 KB of queue",
                marking,
                Source::Endless,
            )
        },
    ]
}
