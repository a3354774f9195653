//! Bounds that are known not to hold, and why.

use super::scenario::Place;
use super::slow_starts::{BY_HYSTART, BY_SEARCH, BY_STANDARD};

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
    entry("rate-fall", None, LOSS_BASED, DRAINED, (NEVER, NEVER), FILLS),
    entry("loss-0.01", END_TO_END, &["reno"], "mean window", (150.0, 160.0), FEW),
    entry(
        "slow-start-1-bdp",
        None,
        BY_HYSTART,
        "packets lost against standard slow start's",
        (0.55, 0.65),
        FIRST_SAMPLES,
    ),
    entry("slow-start-4-bdp", SIMULATOR, BY_SEARCH, LOST, (280.0, 310.0), LOOKS_BACK),
    entry("slow-start-4-bdp", END_TO_END, BY_SEARCH, LOST, (290.0, 320.0), LOOKS_BACK),
    entry("slow-start-4-bdp", END_TO_END, BY_STANDARD, FILLED, (0.4, 0.55), IN_ORDER),
    entry("slow-start-8-bdp", END_TO_END, BY_STANDARD, FILLED, (0.6, 0.75), IN_ORDER),
    entry("slow-start-jitter", END_TO_END, BY_STANDARD, FILLED, (1.1, 1.3), IN_ORDER),
    entry("slow-start-jitter", None, BY_SEARCH, FILLED, (NEVER, NEVER), SHORT_SAMPLE),
    entry("slow-start-jitter", None, BY_SEARCH, SHARE, (0.7, 0.8), SHORT_SAMPLE),
    entry("receive-window", END_TO_END, ALL, SHARE, (0.1, 0.11), HALVES),
    entry("slow-acks-10m", SIMULATOR, BBR3, DONE, (13.0, 13.8), ALL_ACKS),
    entry("slow-acks-10m", END_TO_END, BBR3, DONE, (15.2, 16.2), ALL_ACKS),
    entry("slow-acks-40m", SIMULATOR, BBR3, DONE, (3.2, 3.5), ALL_ACKS),
    entry("slow-acks-40m", END_TO_END, BBR3, DONE, (3.1, 3.4), ALL_ACKS),
    entry("geo", SIMULATOR, &["cubic"], DONE, (10.2, 10.7), DOUBLES),
    entry("geo", SIMULATOR, BBR3, DONE, (10.7, 11.2), PAUSES),
    entry("geo", END_TO_END, &["cubic"], DONE, (10.5, 11.0), DOUBLES),
    entry("geo", END_TO_END, BBR3, DONE, (12.7, 13.4), PAUSES),
    entry("geo-loss", SIMULATOR, BBR3, DONE, (60.0, 72.0), CHANCE),
    entry("geo-slow", END_TO_END, &["cubic"], DONE, (7.8, 8.1), DOUBLES),
    entry("leo-handover", None, BBR3, WORST, (0.3, 0.7), GAP),
    entry("burst-loss", SIMULATOR, &["cubic"], "mean window", (47.5, 50.0), EVENLY),
    entry("cellular-evdo", SIMULATOR, &["reno"], SHARE, (0.88, 0.9), GROWS),
    entry("cellular-mmwave", SIMULATOR, &["cubic"], SHARE, (0.7, 0.9), ENDS),
    entry("cellular-mmwave", SIMULATOR, &["reno"], SHARE, (0.5, 0.9), ENDS),
    entry("cellular-evdo", SIMULATOR, BBR3, SHARE, (0.75, 0.9), RISES),
    entry("cellular-umts", SIMULATOR, BBR3, SHARE, (0.75, 0.9), RISES),
    entry("cellular-evdo", END_TO_END, BBR3, SHARE, (0.75, 0.9), RISES),
    entry("cellular-umts", END_TO_END, BBR3, SHARE, (0.8, 0.9), RISES),
    entry("cellular-lte", END_TO_END, BBR3, SHARE, (0.8, 0.9), RISES),
    entry("cellular-mmwave", SIMULATOR, BBR3, SHARE, (0.6, 0.9), RISES),
    entry("low-rtt-8-apart", SIMULATOR, BBR3, DELAY, (3.1, 4.8), QUEUE_SEEN),
    entry("incast-long", None, BBR3, DELAY, (26.0, 30.0), SHARES),
    entry("incast-long", END_TO_END, BBR3, JAIN, (0.85, 0.9), SHARES),
    entry("fq-codel", SIMULATOR, BBR3, DELAY, (1.2, 1.35), LENT),
    entry("fq-codel-ecn", SIMULATOR, BBR3, DELAY, (1.3, 1.5), LENT),
    entry("second-flow", SIMULATOR, BBR3, JAIN, (0.83, 0.9), LATECOMER),
    entry("fairness-2", SIMULATOR, BBR3, JAIN, (0.87, 0.9), UNEVEN),
];

const LOSS_BASED: &[&str] = &["cubic", "reno"];
const ALL: &[&str] = &["cubic", "reno", "bbr3"];
const BBR3: &[&str] = &["bbr3"];

const DRAINED: &str = "queue drained";
const SHARE: &str = "of the link";
const DONE: &str = "done";
const LOST: &str = "packets lost";
const FILLED: &str = "link filled";
const WORST: &str = "of the link in the worst stretch";
const JAIN: &str = "Jain's index";
const DELAY: &str = "mean srtt against the empty path";

const SIMULATOR: Option<Place> = Some(Place::Simulator);
const END_TO_END: Option<Place> = Some(Place::EndToEnd);
const NEVER: f64 = f64::INFINITY;

const FILLS: &str = "A loss-based window fills whatever queue there is, at 1 Mbit/s 400 ms of it, and a cut leaves half \
                     of the window or more.";
const FEW: &str = "A minute holds five losses, too few to come down from slow start's window; the simulator runs for five \
                   minutes.";

const FIRST_SAMPLES: &str = "The delay of a round is that of its smallest sample (RFC 9406 §4.2), so of its first packets. When that has \
                             risen, the window has doubled to 3.1 BDP, where two fit.";
const LOOKS_BACK: &str = "The queue makes round trips longer, the comparison looks back as far, and slow start ends with 5.5 BDP in \
                          flight, where five fit (cc/DEVIATIONS.md).";
const IN_ORDER: &str = "End to end bytes count once the body is whole up to them, and thousands of packets of it are missing for a while.";
const SHORT_SAMPLE: &str = "With some seeds the first round trip is shorter than most, and so is the time whose deliveries are the window to \
                            end with: less than the BDP (cc/DEVIATIONS.md).";
const HALVES: &str = "quiche's client raises its limit after more than half of the window was read, and a window in flight leaves \
                      exactly half: half a window a round trip is what it allows, 10.2 % of the link. The simulator's receiver \
                      raises it with every ACK.";

const ALL_ACKS: &str = "BBR's window, for a round trip of 2 ms, is too small to fill the queue of the ACKs: none is dropped, each stands for two \
                        datagrams, and the way back limits the rate, to 6 Mbit/s where it has 100 kbit/s for ACKs of 40 bytes. Other windows \
                        fill that queue, and what is left of the ACKs stands for more. picoquic asks for fewer ACKs \
                        (draft-ietf-quic-ack-frequency).";
const DOUBLES: &str = "Slow start from ten datagrams needs eleven round trips of 0.6 s for this BDP (RFC 9002 §7.3.1). picoquic begins \
                       with a larger window where the round trip is long.";
const PAUSES: &str = "As CUBIC; and five seconds after the shortest round trip, still in Startup, ProbeRTT halves what is in flight for a round \
                      trip (draft-ietf-ccwg-bbr-06 §5.3.4): without it 10.0 s in the simulator.";
const CHANCE: &str = "As \"geo\", 13.1 s at most with eighteen seeds of twenty. With two, by chance a round of some five hundred datagrams in Startup \
                      loses more than 2 %, which ends it (draft-ietf-ccwg-bbr-06 §5.3.1.3) at 8 Mbit/s, a rate from which probes lead only \
                      slowly: 54 and 66 s.";
const GAP: &str = "What is lost between two satellites lowers the short-term bounds (draft-ietf-ccwg-bbr-06 §5.5.10.3), which only the next \
                   probe for bandwidth lifts, two to three seconds later.";
const RISES: &str = "The rate is probed every two to three seconds (draft-ietf-ccwg-bbr-06 §5.3.3.8), this link's changes more often, and \
                     outages and overflows lower the short-term bounds until the next probe.";
const EVENLY: &str = "Random losses leave a larger mean than the evenly spaced ones of RFC 9438 §5.1: at 0.1 % without bursts it is 46.7.";
const GROWS: &str = "With one seed of twenty. After a cut the link's rate rises to five times its usual one within seconds, and Reno's window \
                     grows by a datagram per round trip (RFC 9002 §7.3.3).";
const ENDS: &str = "With one seed of twenty. HyStart++ ends slow start while the link has a fifth of its later rate (RFC 9406 §4.2); nothing is \
                    lost in the half minute after that, and only growth per round trip is left.";
const QUEUE_SEEN: &str = "A flow that began later may visit ProbeRTT after the others and measure 0.36 ms, their queue included; its window is \
    larger for that, and its share up to six times that of the others (draft-ietf-ccwg-bbr-06 §5.3.4.1 expects visits at the same time).";
const SHARES: &str = "With 32 flows and 5 datagrams of BDP each flow is at the least window of four, and those that probe for \
    bandwidth add one.";
const LENT: &str = "What CUBIC leaves of its half after a cut counts as BBR's bandwidth for two probing cycles (draft-ietf-ccwg-bbr-06 \
                    §5.5.3), and a queue of its own holds the difference.";
const LATECOMER: &str = "Two flows of BBR share equally only after many probes (draft-ietf-ccwg-bbr-06 §5.3.3.8); with some seeds 80 s are too \
                         few.";
const UNEVEN: &str = "With one seed of twenty. Two flows of BBR share equally only after many probes, whose times are random \
                      (draft-ietf-ccwg-bbr-06 §5.3.3.8).";

const fn entry(
    scenario: &'static str,
    place: Option<Place>,
    controls: &'static [&'static str],
    measure: &'static str,
    range: (f64, f64),
    reason: &'static str,
) -> Expected {
    Expected { scenario, place, controls, measure, range, reason }
}
