//! Cellular links, and the ends of the scale: a rate of 10 Gbit/s over 100 ms, and round trips of 50 µs.

use std::time::Duration;

use sluicegate_sim::{Bottleneck, Cellular, Source};

use super::terms::{
    BBR, END, MBIT, OTHERS, ZERO, alone, least, long, most, ms, secs, share, shorter,
};
use crate::matrix::bound::{Measure, Who};
use crate::matrix::scenario::{CrossTraffic, Scenario};

/// Links whose rate changes with time. A queue of a second, in bytes of the usual rate, is what base stations have at least.
pub(super) fn cellular() -> Vec<Scenario> {
    let row = |name, parameters, kind: Cellular, rtt, simulator, end_to_end| {
        let path = Bottleneck {
            queue_bytes: kind.median() / 8,
            ..Bottleneck::new(kind.median(), rtt, 1.0)
        };
        Scenario {
            cellular: Some(kind),
            simulator,
            end_to_end,
            bounds: vec![least(Who::All, share(secs(5), END), 0.9)],
            source: "RFC 9002 §6.2.1, §7.3.1: an outage costs at most its length again, then slow start; a queue of a second \
                     covers the rest",
            ..alone(name, parameters, path, Source::Endless)
        }
    };
    vec![
        row(
            "cellular-evdo",
            "2.5G in a car, usually 0.5 Mbit/s, 150 ms, queue 61 KB",
            Cellular::Evdo,
            ms(150),
            long(20, secs(120)),
            long(3, secs(60)),
        ),
        row(
            "cellular-umts",
            "3G in a car, usually 1.7 Mbit/s, 100 ms, queue 209 KB",
            Cellular::Umts,
            ms(100),
            long(20, secs(120)),
            long(3, secs(60)),
        ),
        row(
            "cellular-lte",
            "4G in a car, usually 4.4 Mbit/s, 60 ms, queue 552 KB",
            Cellular::Lte,
            ms(60),
            shorter(20, 1, secs(120)),
            long(3, secs(60)),
        ),
        row(
            "cellular-mmwave",
            "5G with millimetre waves on foot, usually 296 Mbit/s, 30 ms, queue 37 MB",
            Cellular::MmWave,
            ms(30),
            long(20, secs(30)),
            None,
        ),
    ]
}

/// The largest and the smallest paths.
pub(super) fn extremes() -> Vec<Scenario> {
    vec![
        Scenario {
            simulator: long(1, secs(30)),
            bounds: vec![
                least(OTHERS, share(secs(5), END), 0.95),
                least(BBR, share(secs(5), END), 0.95),
                most(BBR, Measure::Delay { from: secs(5) }, 1.25),
            ],
            source: "RFC 9002 §7.3.2, RFC 9438 §4.6: β of two BDP fills the link; draft-ietf-ccwg-bbr-06 §5.6.1, §5.6.2",
            ..alone(
                "ten-gigabit",
                "10 Gbit/s, 100 ms",
                Bottleneck::new(10_000 * MBIT, ms(100), 1.0),
                Source::Endless,
            )
        },
        Scenario {
            simulator: shorter(20, 1, secs(1)),
            bounds: vec![
                least(Who::All, share(ms(100), END), 0.95),
                most(BBR, Measure::Delay { from: ms(100) }, 2.0),
            ],
            source: "RFC 9002 §7.3.2, RFC 9438 §4.6: β of five BDP fills the link; draft-ietf-ccwg-bbr-06 §5.6.4.2: 2 BDP in flight",
            ..alone(
                "rack",
                "10 Gbit/s, 50 µs, queue 4 BDP",
                Bottleneck::new(10_000 * MBIT, Duration::from_micros(50), 4.0),
                Source::Endless,
            )
        },
    ]
}

/// Many flows into one port of a switch.
pub(super) fn incast() -> Vec<Scenario> {
    let port = || Bottleneck {
        queue_bytes: 512 * 1_024,
        ..Bottleneck::new(1_000 * MBIT, Duration::from_micros(50), 1.0)
    };
    vec![
        Scenario {
            cross_traffic: CrossTraffic::Incast { flows: 32, bytes: 100_000 },
            simulator: shorter(20, 1, secs(10)),
            end_to_end: shorter(20, 1, secs(10)),
            bounds: vec![most(Who::All, Measure::AllDone, 0.116)],
            source: "RFC 9002 §6.2.1: 26 ms at the link's rate, and two probe timeouts, of 30 and 60 ms",
            ..alone(
                "incast",
                "1 Gbit/s, 50 µs, queue 512 KB, 32 flows of 100 KB at once",
                port(),
                Source::Endless,
            )
        },
        Scenario {
            cross_traffic: CrossTraffic::SameAlgorithm { flows: 32, apart: ZERO },
            simulator: long(20, secs(3)),
            end_to_end: long(2, secs(3)),
            bounds: vec![
                least(BBR, Measure::Jain { from: secs(1) }, 0.9),
                most(BBR, Measure::Delay { from: secs(1) }, 25.6),
                least(OTHERS, Measure::Jain { from: secs(1) }, 0.95),
            ],
            source: "draft-ietf-ccwg-bbr-06 §5.6.4.3: at least 4 datagrams each in flight, 1.23 ms; Jain's index as fairness-2",
            ..alone("incast-long", "the same, 32 flows without end", port(), Source::Endless)
        },
    ]
}
