//! The collapse, pauses of the application, and clean links of many sizes.

use std::time::Duration;

use sluicegate_sim::{Bottleneck, LossWindow, Source};

use super::terms::{
    BBR, END, MBIT, OTHERS, ZERO, alone, always, least, long, most, ms, secs, share, shorter,
    stretch,
};
use crate::matrix::bound::{Measure, Who};
use crate::matrix::scenario::{CrossTraffic, For, Scenario};
use crate::virtual_net::Control;

/// The figures of the report, and what RFC 9438 §4.3 says of Reno's rate: CUBIC has at least that.
const COLLAPSE: &str =
    "Cloudflare, 12 May 2026: all of Reno's within 10 s; RFC 9438 §4.3: not below Reno";

pub(super) fn collapse() -> Vec<Scenario> {
    let loss = vec![LossWindow { from: ZERO, until: secs(2), probability: 0.3 }];
    let one_way = Bottleneck { loss: loss.clone(), ..Bottleneck::new(100 * MBIT, ms(10), 1.0) };
    let both_ways = Bottleneck { ack_loss: loss, ..one_way.clone() };
    let open =
        Bottleneck { rate: vec![(ZERO, u64::MAX)], queue_bytes: u64::MAX, ..one_way.clone() };
    let come_back = || {
        vec![
            most(Who::All, Measure::Done, 10.0),
            most(Who::Only(&["cubic"]), Measure::DoneOverReno, 1.15),
            most(Who::All, Measure::UnexplainedRecoveries, 0.0),
        ]
    };
    let body = || Source::Bulk(10_000_000);
    vec![
        Scenario {
            scalable: true,
            simulator: always(100, secs(10)),
            end_to_end: shorter(20, 10, secs(10)),
            bounds: come_back(),
            source: COLLAPSE,
            ..alone(
                "collapse",
                "10 MB, 100 Mbit/s, 10 ms, 30 % loss of data for 2 s",
                one_way,
                body(),
            )
        },
        Scenario {
            simulator: always(100, secs(10)),
            end_to_end: long(40, secs(10)),
            bounds: come_back(),
            source: COLLAPSE,
            ..alone("collapse-open", "the same, any rate", open.clone(), body())
        },
        Scenario {
            simulator: always(100, secs(10)),
            bounds: vec![
                most(Who::All, Measure::Done, 10.0),
                most(Who::All, Measure::UnexplainedRecoveries, 0.0),
            ],
            source: COLLAPSE,
            ..alone("collapse-both-ways", "100 Mbit/s again, ACKs lost too", both_ways, body())
        },
        unfixed_cubic(open, body()),
    ]
}

fn unfixed_cubic(link: Bottleneck, body: Source) -> Scenario {
    Scenario {
        tried: For::Only(&[Control::QuicheCubic { idle_fix: false }]),
        end_to_end: shorter(100, 20, secs(10)),
        bounds: vec![least(Who::All, Measure::NotDone, 0.25)],
        source: "Cloudflare, 12 May 2026: 61 of 100 fail; this is less than half of it",
        ..alone("the-bug", "the same, any rate, with quiche's CUBIC, its fix off", link, body)
    }
}

pub(super) fn pauses() -> Vec<Scenario> {
    let restart = secs(15);
    let bursts = Source::Bursts(vec![(ZERO, 12_000_000), (restart, 12_000_000)]);
    let periodic = Source::Periodic { bytes: 100_000, every: ms(100), times: 600 };
    vec![
        Scenario {
            scalable: true,
            simulator: always(1, secs(20)),
            end_to_end: always(1, secs(20)),
            bounds: vec![
                most(Who::All, Measure::EpochError { restart }, 1.0),
                most(Who::All, Measure::Burst { from: restart }, 1.0),
                least(Who::All, share(secs(16), secs(18)), 0.9),
            ],
            source: "RFC 9438 §5.8, RFC 9002 §7.8; draft-ietf-ccwg-bbr-06 §5.4.1",
            ..alone(
                "idle-restart",
                "10 Mbit/s, 40 ms, some 5 s without data",
                Bottleneck::new(10 * MBIT, ms(40), 1.0),
                bursts,
            )
        },
        Scenario {
            scalable: true,
            simulator: always(1, secs(70)),
            end_to_end: always(1, secs(70)),
            bounds: vec![
                most(Who::All, Measure::WindowOverInFlight, 2.0),
                most(Who::All, Measure::Done, 61.0),
            ],
            source: "RFC 9002 §7.8, RFC 9438 §5.8: growth by use alone; the link has room for all of it",
            ..alone(
                "app-limited",
                "100 Mbit/s, 62 ms, 100 KB every 100 ms for 60 s",
                Bottleneck::new(100 * MBIT, ms(62), 1.0),
                periodic,
            )
        },
    ]
}

fn shallow(
    name: &'static str,
    parameters: &'static str,
    queue: f64,
    loss_based: f64,
    bbr: f64,
) -> Scenario {
    Scenario {
        scalable: true,
        simulator: always(1, secs(60)),
        bounds: vec![
            least(OTHERS, share(ZERO, END), loss_based),
            least(BBR, share(ZERO, END), bbr),
            most(Who::All, Measure::Loss { from: ZERO }, 0.05),
        ],
        source: "RFC 9002 §7.3.2, RFC 9438 §4.6: the mean of β and 1; draft-ietf-ccwg-bbr-06 §5.5.10.2: 2 % lost ends a probe",
        ..alone(name, parameters, Bottleneck::new(100 * MBIT, ms(40), queue), Source::Endless)
    }
}

/// Downloads over a clean link.
pub(super) fn ramps() -> [Scenario; 2] {
    let ramp = |name, parameters, mbit, rtt, seconds, source| Scenario {
        source,
        scalable: true,
        simulator: always(1, secs(20)),
        end_to_end: always(1, secs(20)),
        bounds: vec![most(Who::All, Measure::Done, seconds)],
        ..alone(name, parameters, Bottleneck::new(mbit * MBIT, rtt, 1.0), Source::Bulk(10_000_000))
    };
    [
        ramp(
            "ramp-up-100m",
            "10 MB, 100 Mbit/s, 10 ms",
            100,
            ms(10),
            1.05,
            "picoquictest/congestion_test.c: `bbr_performance_test`",
        ),
        ramp(
            "ramp-up-1g",
            "10 MB, 1 Gbit/s, 4 ms",
            1_000,
            ms(4),
            0.25,
            "picoquictest/congestion_test.c: `gbps_performance_test`",
        ),
    ]
}

pub(super) fn buffers() -> Vec<Scenario> {
    vec![
        Scenario {
            scalable: true,
            simulator: always(1, secs(60)),
            bounds: vec![
                least(Who::All, share(ZERO, END), 0.95),
                most(BBR, Measure::Delay { from: secs(2) }, 1.5),
                most(BBR, Measure::Loss { from: ZERO }, 0.0),
            ],
            source: "RFC 9438 §4.6: β of three BDP fills the link; draft-ietf-ccwg-bbr-06 §5.3.3.4: 1.25 BDP where probing ends \
                     without loss",
            ..alone(
                "deep-buffer",
                "100 Mbit/s, 100 ms, 2 BDP, 60 s",
                Bottleneck::new(100 * MBIT, ms(100), 2.0),
                Source::Endless,
            )
        },
        shallow("shallow-half", "100 Mbit/s, 40 ms, 0.5 BDP, 60 s", 0.5, 0.9, 0.95),
        shallow("shallow-tenth", "the same, 0.1 BDP", 0.1, 0.75, 0.85),
    ]
}

pub(super) fn low_rtt() -> Vec<Scenario> {
    vec![
        Scenario {
            scalable: true,
            simulator: always(1, secs(5)),
            end_to_end: long(1, secs(2)),
            bounds: vec![least(Who::All, stretch(secs(1), false), 0.9)],
            source: "RFC 9002 §7.3.2: β of two BDP fills the link",
            ..alone(
                "low-rtt",
                "1 Gbit/s, 0.2 ms, 1 BDP",
                Bottleneck::new(1_000 * MBIT, Duration::from_micros(200), 1.0),
                Source::Endless,
            )
        },
        Scenario {
            simulator: always(1, secs(5)),
            end_to_end: long(1, secs(3)),
            bounds: vec![least(Who::All, stretch(secs(1), false), 0.9)],
            source: "RFC 9002 §7.3.2: β of two BDP fills the link",
            ..alone(
                "low-rtt-10-bdp",
                "the same, 10 BDP",
                Bottleneck::new(1_000 * MBIT, Duration::from_micros(200), 10.0),
                Source::Endless,
            )
        },
        eight("low-rtt-8", "the same, 20 BDP, 8 flows", ZERO, secs(1)),
        eight("low-rtt-8-apart", "the same, begun 100 ms apart; from 12 s on", ms(100), secs(12)),
    ]
}

/// Eight flows, each with 2.6 datagrams of the BDP. Those that begin later see the path without a queue when all have been in
/// ProbeRTT together, in its second interval.
fn eight(
    name: &'static str,
    parameters: &'static str,
    apart: Duration,
    from: Duration,
) -> Scenario {
    let limit = from + secs(6);
    Scenario {
        cross_traffic: CrossTraffic::SameAlgorithm { flows: 8, apart },
        simulator: if apart.is_zero() {
            shorter(5, 1, limit)
        } else {
            // What the first seed shows is not what the worst does.
            long(5, limit)
        },
        end_to_end: long(1, limit),
        bounds: vec![
            most(BBR, Measure::Delay { from }, 3.0),
            least(Who::All, Measure::Utilization { from }, 0.95),
        ],
        source: "our goal: two BDP of queue at most, where a window of 2 BDP (draft-ietf-ccwg-bbr-06 §5.6.4.2) leaves one; \
                 RFC 9002 §7.3.2: β of 21 BDP fills the link",
        ..alone(
            name,
            parameters,
            Bottleneck::new(1_000 * MBIT, Duration::from_micros(200), 20.0),
            Source::Endless,
        )
    }
}
