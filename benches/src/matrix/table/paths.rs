//! Paths that people have: satellites, slow ways back, loss in bursts.

use std::time::Duration;

use sluicegate_sim::{AckPath, Bottleneck, GilbertElliott, LossWindow, Source};

use super::terms::{
    BBR, CUBIC, END, MBIT, RENO, ZERO, alone, bound, least, long, most, ms, secs, share, shorter,
    stretch,
};
use crate::matrix::bound::{Limit, Measure, Who};
use crate::matrix::scenario::Scenario;

/// An ACK, bytes: short header, ranges, tag.
const ACK: u64 = 40;

/// Geostationary satellites, with the rates that an operator named for the tests of picoquic.
pub(super) fn geostationary() -> Vec<Scenario> {
    let clean = Bottleneck {
        ack_path: Some(AckPath { bits_per_second: 3 * MBIT, queue_bytes: 225_000, ack_bytes: ACK }),
        ..Bottleneck::new(250 * MBIT, ms(600), 1.0)
    };
    let lossy = Bottleneck { loss: vec![LossWindow::always(0.01)], ..clean.clone() };
    let far = Bottleneck {
        ack_path: Some(AckPath { bits_per_second: MBIT, queue_bytes: 75_000, ack_bytes: ACK }),
        ..Bottleneck::new(10 * MBIT, ms(600), 1.0)
    };
    vec![
        Scenario {
            simulator: long(20, secs(60)),
            end_to_end: long(1, secs(60)),
            bounds: vec![most(CUBIC, Measure::Done, 6.5), most(BBR, Measure::Done, 5.5)],
            source: "picoquictest/satellite_test.c: `satellite_cubic_test`, `satellite_basic_test`",
            ..alone(
                "geo",
                "100 MB, 250 Mbit/s, 600 ms, ACKs at 3 Mbit/s",
                clean,
                Source::Bulk(100_000_000),
            )
        },
        Scenario {
            simulator: long(20, secs(120)),
            bounds: vec![most(BBR, Measure::Done, 8.0)],
            source: "picoquictest/satellite_test.c: `satellite_loss_test`",
            ..alone("geo-loss", "the same with 1 % loss", lossy, Source::Bulk(100_000_000))
        },
        Scenario {
            simulator: shorter(20, 1, secs(60)),
            end_to_end: long(1, secs(60)),
            bounds: vec![most(CUBIC, Measure::Done, 7.5)],
            source: "picoquictest/cc_compete_test.c: `cc_ns_asym_test`",
            ..alone(
                "geo-slow",
                "4 MB, 10 Mbit/s, 600 ms, ACKs at 1 Mbit/s",
                far,
                Source::Bulk(4_000_000),
            )
        },
    ]
}

/// Satellites in low orbit: every 15 s another one, at another distance, with a gap between (G. Huston, "A transport
/// protocol's view of Starlink", APNIC 2024: shifts of 30 to 80 ms, jitter of 6.7 ms).
pub(super) fn low_orbit() -> Vec<Scenario> {
    let handovers = || (1u64..).map(|n| secs(15 * n)).zip([40u64, 15, 30, 20, 40, 15]);
    let bottleneck = Bottleneck {
        delay_steps: handovers().map(|(at, delay)| (at, ms(delay))).collect(),
        loss: handovers()
            .map(|(at, _)| LossWindow { from: at, until: at + ms(30), probability: 1.0 })
            .collect(),
        jitter: Duration::from_micros(3_350),
        ..Bottleneck::new(100 * MBIT, ms(30), 1.0)
    };
    let worst = stretch(secs(5), true);
    vec![Scenario {
        simulator: long(20, secs(105)),
        end_to_end: long(1, secs(50)),
        bounds: vec![least(RENO, worst, 0.19), least(CUBIC, worst, 0.26), least(BBR, worst, 0.7)],
        source: "RFC 9002 §7.3.2, RFC 9438 §4.6: β × 30/80; draft-ietf-ccwg-bbr-06 §5.6.4.2: a window of 2 BDP × 30/80",
        ..alone(
            "leo-handover",
            "100 Mbit/s, every 15 s another RTT from 30 to 80 ms, ± 3.4 ms, nothing for 30 ms between",
            bottleneck,
            Source::Endless,
        )
    }]
}

/// Ways back that are too slow for all ACKs.
pub(super) fn slow_acks() -> Vec<Scenario> {
    let row = |name, parameters, mbit, test, seconds| {
        let path = Bottleneck {
            // Room for 50 ms in both directions.
            queue_bytes: mbit * MBIT / 8 / 20,
            ack_path: Some(AckPath {
                bits_per_second: mbit * MBIT / 100,
                queue_bytes: mbit * MBIT / 100 / 8 / 20,
                ack_bytes: ACK,
            }),
            jitter: Duration::from_micros(750),
            ..Bottleneck::new(mbit * MBIT, ms(2), 1.0)
        };
        Scenario {
            simulator: long(20, secs(30)),
            end_to_end: long(1, secs(30)),
            bounds: vec![most(BBR, Measure::Done, seconds)],
            source: test,
            ..alone(name, parameters, path, Source::Bulk(10_000_000))
        }
    };
    vec![
        row(
            "slow-acks-10m",
            "10 MB, 10 Mbit/s, 2 ± 0.75 ms, queue 50 ms, ACKs at 100 kbit/s",
            10,
            "picoquictest/congestion_test.c: `bbr_asym100_test`",
            8.5,
        ),
        row(
            "slow-acks-40m",
            "10 MB, 40 Mbit/s, ACKs at 400 kbit/s",
            40,
            "picoquictest/congestion_test.c: `bbr_asym400_test`",
            2.35,
        ),
    ]
}

/// Losses that come in bursts. A burst is one congestion event, so that the windows are those of as many single losses.
pub(super) fn burst_loss() -> Vec<Scenario> {
    let window = Measure::MeanWindow { from: secs(20) };
    let bottleneck = Bottleneck {
        burst_loss: Some(GilbertElliott::bursts(1e-3, 3.0)),
        ..Bottleneck::new(100 * MBIT, ms(100), 1.0)
    };
    vec![Scenario {
        // What the first seed shows is not what the worst does.
        simulator: long(20, secs(120)),
        end_to_end: long(1, secs(60)),
        bounds: vec![
            bound(CUBIC, window, Limit::Near(38.0)),
            bound(RENO, window, Limit::Near(38.0)),
            least(BBR, share(secs(5), END), 0.95),
        ],
        source: "RFC 9438 §5.1 and §4.6 at p = 0.1 %; draft-ietf-ccwg-bbr-06 §5.5.10.2: less than 2 % lost",
        ..alone(
            "burst-loss",
            "100 Mbit/s, 100 ms, Gilbert–Elliott: 0.1 % of packets begin a burst of 3 losses",
            bottleneck,
            Source::Endless,
        )
    }]
}

/// A home router with a second of queue.
pub(super) fn bufferbloat() -> Vec<Scenario> {
    vec![Scenario {
        simulator: shorter(20, 1, secs(60)),
        end_to_end: long(1, secs(60)),
        bounds: vec![
            least(Who::All, share(secs(2), END), 0.95),
            most(BBR, Measure::Delay { from: secs(2) }, 1.5),
            most(BBR, Measure::Loss { from: ZERO }, 0.0),
        ],
        source: "draft-ietf-ccwg-bbr-06 §5.3.3.4: 1.25 BDP where probing ends without loss; RFC 9438 §4.6: β of 26 BDP fills the link",
        ..alone(
            "bufferbloat",
            "10 Mbit/s, 40 ms, queue of one second",
            Bottleneck::new(10 * MBIT, ms(40), 25.0),
            Source::Endless,
        )
    }]
}
