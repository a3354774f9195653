//! Bounds that are known not to hold, and why.

use super::scenario::Place;

/// A bound that does not hold for a reason that is understood.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The network; `None` is both.
    pub place: Option<Place>,
    /// Names of the controls.
    pub controls: &'static [&'static str],
    /// The measure's name.
    pub measure: &'static str,
    /// Least and most of the figure; a figure outside is news.
    pub range: (f64, f64),
    /// The reason, for the report.
    pub reason: &'static str,
}

/// The known failures. The same list stands in cc/RESULTS.md.
pub const EXPECTED: &[Expected] = &[
    entry(
        "rate-fall",
        None,
        LOSS_BASED,
        DRAINED,
        (NEVER, NEVER),
        FILLS,
    ),
    entry("rate-fall", None, BBR3, DRAINED, (10.5, 11.5), REMEMBERS),
    entry("loss-2", SIMULATOR, BBR3, SHARE, (0.08, 0.12), PROBES),
    // Eight seeds gave 20.9 to 49.2 %: which probes end early depends on single packets.
    entry("loss-2", END_TO_END, BBR3, SHARE, (0.20, 0.50), PROBES),
    entry(
        "loss-0.01",
        END_TO_END,
        &["reno"],
        "mean window",
        (150.0, 160.0),
        FEW,
    ),
];

const LOSS_BASED: &[&str] = &["cubic", "reno"];
const BBR3: &[&str] = &["bbr3"];

const DRAINED: &str = "queue drained";
const SHARE: &str = "of the link";

const SIMULATOR: Option<Place> = Some(Place::Simulator);
const END_TO_END: Option<Place> = Some(Place::EndToEnd);
const NEVER: f64 = f64::INFINITY;

const FILLS: &str = "A loss-based window fills whatever queue there is, at 1 Mbit/s 400 ms of it, and a cut leaves half \
                     of the window or more.";
const REMEMBERS: &str = "The rate is the highest of two probing cycles (draft-ietf-ccwg-bbr-06 §5.5), some ten seconds \
                         here; until then losses hold the short-term rate and the window down, but not the queue.";
const PROBES: &str = "Random loss of `loss_threshold`, 2 %, is what ends a probe for bandwidth: half of the probes take the path for full \
                      and lower the long-term bound (draft-ietf-ccwg-bbr-06 §5.5.10.2).";
const FEW: &str = "A minute holds five losses, too few to come down from slow start's window; the simulator runs for five \
                   minutes.";

const fn entry(
    scenario: &'static str,
    place: Option<Place>,
    controls: &'static [&'static str],
    measure: &'static str,
    range: (f64, f64),
    reason: &'static str,
) -> Expected {
    Expected {
        scenario,
        place,
        controls,
        measure,
        range,
        reason,
    }
}
