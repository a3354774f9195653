//! No byte string makes an algorithm violate the rules of the contract, and a controller that violates one is caught.
//!
//! The fuzz target in `cc/fuzz/` checks the same rules with strings of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_cc::{
    Algorithm, CarefulResume, Controller, Event, Init, Layer, Observation, Options, PacketState,
    PathCapacity, PathMemory, Registry, ResumeEvent, Sent, Snapshot, State, Time,
};
use sluicegate_sim::{Rng, properties};

/// Strings for each algorithm.
const STRINGS: u64 = 3_000;

/// Returns the same string for the same seed: up to 600 bytes, most much shorter.
fn string(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let scale = 1 << (rng.bits() % 10);
    let length = rng.bits() % scale + rng.bits() % 90;
    (0..length).map(|_| rng.bits().to_le_bytes()[0]).collect()
}

fn outcome(algorithm: &Algorithm, seed: u64) -> properties::Outcome {
    properties::any_bytes(algorithm, &string(seed))
        .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"))
}

/// Takes long: most strings do not get far, so each algorithm gets 3,000.
#[test]
fn no_string_breaks_a_rule() {
    for algorithm in &Registry::builtin() {
        let name = algorithm.name;
        let (mut calls, mut arbitrary, mut signals) = (0, 0, 0);
        for seed in 0..STRINGS {
            let outcome = outcome(algorithm, seed);
            calls += outcome.calls;
            arbitrary += u64::from(!outcome.consistent);
            signals += outcome.last.congestion_events;
        }
        println!("{name}: {calls} calls, {signals} signals, {arbitrary} arbitrary transports");
        // Strings that reach nothing prove nothing.
        assert!(calls > 100 * STRINGS, "{name}: {calls} calls");
        assert!(signals > STRINGS, "{name}: {signals} signals");
        assert!((STRINGS / 8..STRINGS / 2).contains(&arbitrary), "{name}");
    }
}

/// Bytes that each connection of [`RESUMING`] may try.
const JUMP: u64 = 3_000_000;

/// Number of times that one did, and that one retreated.
static JUMPS: AtomicU64 = AtomicU64::new(0);
static RETREATS: AtomicU64 = AtomicU64::new(0);

/// Saved capacities of every path.
#[derive(Debug)]
struct Everywhere;

impl PathMemory for Everywhere {
    fn claim(&self) -> Option<PathCapacity> {
        Some(PathCapacity { cwnd: 2 * JUMP, min_rtt: Duration::from_millis(50) })
    }

    fn release(&self) {}

    fn save(&self, _: Observation) {}

    fn discard(&self) {}

    fn on_event(&self, event: ResumeEvent) {
        let counted = match event {
            ResumeEvent::Jumped => &JUMPS,
            ResumeEvent::Retreated => &RETREATS,
            _ => return,
        };
        counted.fetch_add(1, Ordering::Relaxed);
    }
}

fn resume(algorithm: &str, init: &Init, options: &Options) -> Box<dyn Controller> {
    let registry = Registry::builtin();
    let inner = registry.find(algorithm).expect("built in");
    let inner = inner.controller(init, options);
    Box::new(CarefulResume::new(inner, init.mtu, JUMP, Box::new(Everywhere)))
}

/// A function that builds a controller.
type Build = fn(&Init, &Options) -> Box<dyn Controller>;

/// Algorithms within careful resume.
const RESUMING: [(&str, Build); 2] = [
    ("cubic", |init, options| resume("cubic", init, options)),
    ("reno", |init, options| resume("reno", init, options)),
];

/// Takes long: with few strings the path is like the one whose capacity is resumed, so each of two algorithms gets 3,000.
#[test]
fn no_string_breaks_a_rule_while_a_capacity_is_resumed() {
    for (name, build) in RESUMING {
        let (jumps, retreats) = (JUMPS.load(Ordering::Relaxed), RETREATS.load(Ordering::Relaxed));
        let algorithm = *Registry::builtin().find(name).expect("built in");
        let algorithm = Algorithm { build, ..algorithm };
        for seed in 0..STRINGS {
            let outcome = properties::any_bytes_given(&algorithm, JUMP, &string(seed));
            outcome.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        }
        let jumps = JUMPS.load(Ordering::Relaxed) - jumps;
        let retreats = RETREATS.load(Ordering::Relaxed) - retreats;
        println!("{name}: {jumps} jumps, {retreats} retreats");
        // Few strings have a path that is alike.
        assert!(jumps > 10 && retreats > 1, "{name}: {jumps}, {retreats}");
    }
}

#[test]
fn seeds_of_the_fuzz_target_reach_both_transports() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/any_bytes");
    let files = std::fs::read_dir(folder).expect("the folder of the seeds");
    let files = files.map(|file| file.expect("an entry").path());
    let seeds: Vec<Vec<u8>> = files.map(|file| std::fs::read(file).expect("a seed")).collect();
    for algorithm in &Registry::builtin() {
        let tried = seeds.iter().map(|seed| {
            properties::any_bytes(algorithm, seed).unwrap_or_else(|broken| panic!("{broken}"))
        });
        let tried: Vec<_> = tried.collect();
        let calls = |consistent| {
            let those = tried.iter().filter(|o| o.consistent == consistent);
            those.map(|outcome| outcome.calls).sum::<u64>()
        };
        let (consistent, arbitrary) = (calls(true), calls(false));
        let name = algorithm.name;
        assert!(consistent > 100 && arbitrary > 10, "{name}: {consistent} and {arbitrary} calls");
    }
}

#[test]
fn same_string_gives_the_same_controller() {
    for algorithm in &Registry::builtin() {
        for seed in 0..100 {
            let (first, again) = (outcome(algorithm, seed), outcome(algorithm, seed));
            let same = format!("{first:?}") == format!("{again:?}");
            assert!(same, "{}, seed {seed}", algorithm.name);
        }
    }
}

/// Fault of a [`Faulty`] controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    WindowBelowTwoDatagrams,
    CurveInTheFuture,
    NoRate,
    NoBurst,
    GrowthWithoutAck,
    GrowthWithoutFlight,
    RecoveryWithoutLoss,
    CongestionWithoutLoss,
    IdleBeforeItWasBorn,
    IdleForgotten,
    TwoTruths,
}

/// Each fault, and a word of the rule that finds it.
const FAULTS: [(Fault, &str); 11] = [
    (Fault::WindowBelowTwoDatagrams, "below two datagrams"),
    (Fault::CurveInTheFuture, "curve begins"),
    (Fault::NoRate, "pacing rate"),
    (Fault::NoBurst, "burst"),
    (Fault::GrowthWithoutAck, "earned"),
    (Fault::GrowthWithoutFlight, "was in flight"),
    (Fault::RecoveryWithoutLoss, "recovery began"),
    (Fault::CongestionWithoutLoss, "congestion counted"),
    (Fault::IdleBeforeItWasBorn, "idle for"),
    (Fault::IdleForgotten, "idle time shrank"),
    (Fault::TwoTruths, "snapshot"),
];

/// A sound controller with one fault.
#[derive(Debug)]
struct Faulty {
    sound: Box<dyn Controller>,
    fault: Fault,
    /// Bytes that the fault adds to the window.
    extra: u64,
    sent: u64,
    /// Whether the latest packet left with nothing in flight.
    from_empty: bool,
}

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }
}

impl Layer for Faulty {
    fn inner(&self) -> &dyn Controller {
        &*self.sound
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        &mut *self.sound
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        self.sent += 1;
        self.from_empty = sent.in_flight_before == 0;
        self.sound.on_sent(now, sent)
    }
    fn on_event(&mut self, event: &Event<'_>) {
        let before = self.sound.cwnd();
        self.sound.on_event(event);
        if self.has(Fault::GrowthWithoutFlight) {
            // All that is acknowledged is growth, and no more than that.
            let acked = event.acked.iter().map(|a| a.bytes).sum::<u64>();
            let grown = self.sound.cwnd().saturating_sub(before);
            self.extra += acked.saturating_sub(grown);
        }
    }
    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        if self.has(Fault::GrowthWithoutAck) {
            self.extra += 1_200;
        }
        self.sound.on_app_limited(now, in_flight);
    }
    fn cwnd(&self) -> u64 {
        let cwnd = self.sound.cwnd() + self.extra;
        if self.has(Fault::WindowBelowTwoDatagrams) { cwnd / 8 } else { cwnd }
    }
    fn pacing_rate(&self) -> Option<u64> {
        let rate = self.sound.pacing_rate();
        if self.has(Fault::NoRate) { rate.map(|_| 0) } else { rate }
    }
    fn send_quantum(&self) -> u64 {
        if self.has(Fault::NoBurst) { 1 } else { self.sound.send_quantum() }
    }
    fn state(&self) -> State {
        let recovers = self.has(Fault::RecoveryWithoutLoss) && self.from_empty;
        if recovers { State::Recovery } else { self.sound.state() }
    }
    fn snapshot(&self) -> Snapshot {
        let sound = self.sound.snapshot();
        let late = if self.has(Fault::CurveInTheFuture) { 1 } else { 0 };
        let counted = if self.has(Fault::CongestionWithoutLoss) { self.sent } else { 0 };
        Snapshot {
            cwnd: Layer::cwnd(self) + u64::from(self.has(Fault::TwoTruths)),
            pacing_rate: Layer::pacing_rate(self),
            state: Layer::state(self),
            epoch: sound.epoch.map(|epoch| epoch + Duration::from_secs(late)),
            idle_excluded: match self.fault {
                Fault::IdleBeforeItWasBorn => sound.idle_excluded + Duration::from_nanos(1),
                Fault::IdleForgotten if self.from_empty => Duration::ZERO,
                _ => sound.idle_excluded,
            },
            congestion_events: sound.congestion_events + counted,
            ..sound
        }
    }
}

/// CUBIC with the fault of that place in [`FAULTS`], or none past its end.
fn faulty<const PLACE: usize>(init: &Init, options: &Options) -> Box<dyn Controller> {
    let registry = Registry::builtin();
    let cubic = registry.find("cubic").expect("built in");
    Box::new(Faulty {
        sound: cubic.controller(init, options),
        fault: FAULTS.get(PLACE).map_or(Fault::Nothing, |&(fault, _)| fault),
        extra: 0,
        sent: 0,
        from_empty: false,
    })
}

/// Returns the first rule that a controller breaks, in a tenth of the strings.
fn broken(build: fn(&Init, &Options) -> Box<dyn Controller>) -> Option<properties::Violation> {
    let cubic = *Registry::builtin().find("cubic").expect("built in");
    let algorithm = Algorithm { build, ..cubic };
    (0..STRINGS / 10).find_map(|seed| properties::any_bytes(&algorithm, &string(seed)).err())
}

#[test]
fn every_fault_is_caught_by_its_rule() {
    let builds = [
        faulty::<0>,
        faulty::<1>,
        faulty::<2>,
        faulty::<3>,
        faulty::<4>,
        faulty::<5>,
        faulty::<6>,
        faulty::<7>,
        faulty::<8>,
        faulty::<9>,
        faulty::<10>,
    ];
    for (build, (fault, rule)) in builds.into_iter().zip(FAULTS) {
        let broken = broken(build).unwrap_or_else(|| panic!("{fault:?} is not seen"));
        assert!(broken.rule.contains(rule), "{fault:?} is taken for: {broken}");
    }
    assert_eq!(broken(faulty::<11>), None);
}
