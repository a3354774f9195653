//! What applications do: on and off, a second flow later, slow readers, pages.

use sluicegate_sim::{Bottleneck, Pages, ReceiveWindow, Source};

use super::terms::{
    BBR, END, MBIT, OTHERS, alone, always, least, long, most, ms, secs, share, shorter,
};
use crate::matrix::bound::{Measure, Who};
use crate::matrix::scenario::{CrossTraffic, Scenario};
use crate::virtual_net::PageLoad;

pub(super) fn applications() -> Vec<Scenario> {
    vec![on_off(), later(), window(), reader(), pages(), objects()]
}

/// Half of each 100 ms without data.
fn on_off() -> Scenario {
    let source = Source::Periodic { bytes: 312_000, every: ms(100), times: 300 };
    Scenario {
        simulator: shorter(20, 1, secs(40)),
        end_to_end: long(1, secs(40)),
        bounds: vec![
            most(Who::All, Measure::Done, 30.3),
            most(Who::All, Measure::WindowOverInFlight, 2.0),
        ],
        source: "RFC 9002 §7.8, RFC 9438 §5.8: growth by use alone; half of the link suffices, so the last 312 KB end by three round trips",
        ..alone(
            "on-off",
            "50 Mbit/s, 40 ms, 312 KB every 100 ms for 30 s: 50 ms on, 50 ms off",
            Bottleneck::new(50 * MBIT, ms(40), 1.0),
            source,
        )
    }
}

/// A flow that has had the link for itself meets another.
fn later() -> Scenario {
    let from = secs(40);
    Scenario {
        cross_traffic: CrossTraffic::SameAlgorithm { flows: 2, apart: secs(20) },
        simulator: long(20, secs(120)),
        end_to_end: long(2, secs(120)),
        bounds: vec![
            least(OTHERS, Measure::Jain { from }, 0.95),
            least(BBR, Measure::Jain { from }, 0.9),
            least(Who::All, Measure::SmallestShare { from }, 0.5),
        ],
        source: "Jain's index as fairness-2; picoquictest/cc_compete_test.c: nobody below a quarter of the link",
        ..alone(
            "second-flow",
            "50 Mbit/s, 40 ms, a second flow 20 s later, 120 s",
            Bottleneck::new(50 * MBIT, ms(40), 1.0),
            Source::Endless,
        )
    }
}

/// A receive window below the BDP.
fn window() -> Scenario {
    Scenario {
        receive_window: Some(ReceiveWindow { bytes: 256_000, bits_per_second: u64::MAX }),
        simulator: always(1, secs(30)),
        end_to_end: long(1, secs(30)),
        bounds: vec![
            least(Who::All, share(secs(5), END), 0.19),
            most(Who::All, Measure::WindowOverInFlight, 2.0),
        ],
        source: "RFC 9000 §4.1: a window a round trip, 20.5 % of the link; RFC 9002 §7.8: growth by use alone",
        ..alone(
            "receive-window",
            "100 Mbit/s, 100 ms, the receiver allows 256 KB",
            Bottleneck::new(100 * MBIT, ms(100), 1.0),
            Source::Endless,
        )
    }
}

/// A receiver whose application reads more slowly than the link delivers.
fn reader() -> Scenario {
    Scenario {
        receive_window: Some(ReceiveWindow { bytes: 256_000, bits_per_second: 5 * MBIT }),
        simulator: always(1, secs(30)),
        end_to_end: long(1, secs(30)),
        bounds: vec![
            least(Who::All, share(secs(5), END), 0.049),
            most(Who::All, Measure::WindowOverInFlight, 2.0),
        ],
        source: "RFC 9000 §4.1: 5 % of the link, as is read; RFC 9002 §7.8: growth by use alone",
        ..alone(
            "slow-reader",
            "100 Mbit/s, 20 ms, the receiver reads 5 Mbit/s and allows 256 KB",
            Bottleneck::new(100 * MBIT, ms(20), 1.0),
            Source::Endless,
        )
    }
}

/// Ten pages with time to read between them; bounds for the time of all, and of the slowest against the ideal one.
fn ten_pages(
    (name, parameters): (&'static str, &'static str),
    load: PageLoad,
    [done, slowest]: [f64; 2],
    source: &'static str,
) -> Scenario {
    Scenario {
        pages: Some(load),
        simulator: shorter(20, 1, secs(60)),
        end_to_end: long(1, secs(60)),
        bounds: vec![
            most(Who::All, Measure::Done, done),
            most(Who::All, Measure::SlowestPage, slowest),
        ],
        source,
        ..alone(
            name,
            parameters,
            Bottleneck::new(50 * MBIT, ms(40), 1.0),
            Source::Bulk(10 * load.pages.bytes),
        )
    }
}

/// Pages of one object.
fn pages() -> Scenario {
    ten_pages(
        ("pages", "50 Mbit/s, 40 ms, ten pages of 500 KB, a second between"),
        PageLoad { pages: Pages { bytes: 500_000, think: secs(1) }, objects: 1 },
        [12.2, 2.67],
        "RFC 9002 §7.3.1: nine pauses, and ten times slow start: six round trips for 500 KB, and 80 ms at the link's rate",
    )
}

/// Pages of many objects, each on a stream of its own: about as many, and as large, as the median page for desktops has (HTTP Archive,
/// 2024).
fn objects() -> Scenario {
    let row = ten_pages(
        (
            "pages-objects",
            "50 Mbit/s, 40 ms, ten pages of 70 objects of 35 KB, two seconds between",
        ),
        PageLoad { pages: Pages { bytes: 2_450_000, think: secs(2) }, objects: 70 },
        [24.4, 1.47],
        "RFC 9002 §7.3.1: nine pauses, and ten times slow start: six round trips, and 392 ms at the link's rate",
    );
    Scenario { end_to_end: long(3, secs(60)), ..row }
}
