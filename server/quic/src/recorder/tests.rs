use std::time::Duration;

use super::*;

const RTT: Duration = Duration::from_millis(50);
const STALL: Duration = Duration::from_secs(10);
const DATAGRAM: usize = 1200;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns a look at a connection that sends as fast as a window of ten packets allows.
fn usual(now: Instant) -> RestSample {
    let figures = Figures {
        window: 10 * DATAGRAM,
        in_flight: 10 * DATAGRAM,
        datagram: DATAGRAM,
        rtt: RTT,
        latest_rtt: RTT,
        min_rtt: Some(RTT),
        ..Figures::default()
    };
    let state = "congestion_avoidance";
    RestSample { now, wait: Wait::Congestion, state, figures, floor: 3 * DATAGRAM - 1, marked: 0 }
}

/// Looks at a connection each round trip for a while: `change` makes each look. Returns the triggers that fired, with their times.
fn fired(time: Duration, change: impl Fn(&mut RestSample, u32)) -> Vec<(Trigger, Duration)> {
    let begun = sluicegate_base::clock::now();
    let mut first = usual(begun);
    change(&mut first, 0);
    let mut recorder = Recorder::new(&first);
    let mut fired = Vec::new();
    let mut turn = 0;
    while RTT * turn < time {
        let mut look = usual(begun + RTT * turn);
        // What is sent in a round trip arrives in the next one, unless a case says otherwise.
        look.figures.acked = u64::from(turn) * 2400;
        change(&mut look, turn);
        let trigger = recorder.look(&look, STALL);
        fired.extend(trigger.map(|trigger| (trigger, look.now - begun)));
        turn += 1;
    }
    fired
}

fn at_floor(look: &mut RestSample) {
    look.figures.window = 2 * DATAGRAM;
}

type Case = (&'static str, fn(&mut RestSample, u32), &'static [(Trigger, u64)]);

/// Names of cases, what each rest is like, and the triggers with their times, ms.
const CASES: &[Case] = &[
    ("usual", |_, _| {}, &[]),
    ("floor", |look, _| at_floor(look), &[(Trigger::WindowFloor, 1500)]),
    (
        "floor that grows by next to nothing",
        |look, turn| {
            at_floor(look);
            look.figures.window += usize::try_from(turn).unwrap();
        },
        &[(Trigger::WindowFloor, 1500)],
    ),
    (
        "floor twice",
        |look, turn| {
            if turn % 100 != 99 {
                at_floor(look);
            }
        },
        &[(Trigger::WindowFloor, 1500), (Trigger::WindowFloor, 6500)],
    ),
    (
        "client that does not read",
        |look, _| {
            at_floor(look);
            look.wait = Wait::StreamFlow;
            look.figures.acked = 0;
        },
        &[],
    ),
    (
        "idle connection",
        |look, _| {
            at_floor(look);
            look.wait = Wait::Client;
            look.figures.acked = 0;
        },
        &[],
    ),
    (
        "application without data",
        |look, _| {
            at_floor(look);
            look.wait = Wait::Application;
            look.figures.acked = 0;
        },
        &[],
    ),
    (
        "slow start from a small window",
        |look, turn| look.figures.window = (2 * DATAGRAM) << turn.min(10),
        &[],
    ),
    (
        "floor after each loss, for ten round trips",
        |look, turn| {
            if turn % 20 < 10 {
                at_floor(look);
            }
        },
        &[],
    ),
    ("recovery", |look, _| look.state = "recovery", &[(Trigger::Recovery, 1000)]),
    (
        "recovery with losses",
        |look, turn| {
            look.state = "recovery";
            look.figures.lost_packets = usize::try_from(turn / 10).unwrap();
        },
        &[],
    ),
    (
        "recovery with congestion marks",
        |look, turn| {
            look.state = "recovery";
            look.marked = u64::from(turn);
        },
        &[],
    ),
    (
        "recovery of an application that has sent all",
        |look, _| {
            look.state = "recovery";
            look.wait = Wait::Acknowledgement;
        },
        &[],
    ),
    (
        "silence",
        |look, turn| {
            at_floor(look);
            look.figures.acked = 0;
            look.figures.probe_timeouts = turn / 20;
        },
        &[(Trigger::ProbeTimeouts, 3000), (Trigger::NoProgress, 10_000)],
    ),
    ("two timeouts", |look, turn| look.figures.probe_timeouts = (turn / 10) % 3, &[]),
    (
        "no progress",
        |look, turn| look.figures.acked = u64::from(turn.min(100)) * 2400,
        &[(Trigger::NoProgress, 15_000)],
    ),
    (
        "last packet that is never acknowledged",
        |look, _| {
            look.wait = Wait::Acknowledgement;
            look.figures.acked = 0;
        },
        &[(Trigger::NoProgress, 10_000)],
    ),
];

#[test]
fn triggers_fire_once_and_only_for_their_causes() {
    for (name, change, expected) in CASES {
        let expected: Vec<_> = expected.iter().map(|(trigger, at)| (*trigger, ms(*at))).collect();
        let time = if *name == "floor twice" { ms(9000) } else { ms(30_000) };
        assert_eq!(fired(time, change), expected, "{name}");
    }
}

#[test]
fn connection_is_looked_at_when_it_could_stall_or_be_quiet() {
    let begun = sluicegate_base::clock::now();
    let mut look = usual(begun);
    let mut recorder = Recorder::new(&look);
    recorder.look(&look, STALL);
    assert_eq!(recorder.due(), Some(begun + STALL));
    assert!(!recorder.take_due(begun) && recorder.take_due(begun + STALL));
    assert_eq!(recorder.due(), None);
    look.now = begun + STALL;
    assert_eq!(recorder.look(&look, STALL), Some(Trigger::NoProgress));
    assert_eq!(recorder.due(), None);
    look.wait = Wait::Application;
    recorder.wait(look.wait, look.now);
    recorder.look(&look, STALL);
    let quiet = look.now + QUIET;
    assert_eq!(recorder.due(), Some(quiet));
    assert!(recorder.is_quiet(look.wait, quiet) && !recorder.is_quiet(look.wait, look.now));
    assert!(!recorder.is_quiet(Wait::Congestion, quiet));
}

#[test]
fn ring_keeps_the_latest_events_and_the_state_before_them() {
    let begun = sluicegate_base::clock::now();
    let mut look = usual(begun);
    let mut ring = Ring::new(&look);
    assert_eq!((ring.len(), ring.span(), ring.before()), (0, Duration::ZERO, Condition::of(&look)));
    for turn in 1..=1000_u32 {
        look.now = begun + ms(10) * turn;
        look.figures.window = usize::try_from(turn).unwrap();
        look.figures.sent_packets += 2;
        look.figures.lost_packets += 1;
        ring.record(&look);
        // Nothing has changed since.
        ring.record(&look);
    }
    assert_eq!((ring.len(), ring.newest(), ring.span()), (256, look.now, ms(10) * 255));
    assert_eq!(ring.before().window, 744);
    for ((at, what), turn) in ring.events().zip(745..) {
        assert_eq!(at, ms(10) * (turn - 745));
        let Occurrence::Packets { sent, lost, window, .. } = what else {
            panic!("{what:?}");
        };
        assert_eq!((sent, lost, window), (2, 1, turn));
    }
    ring.restart(&look);
    assert_eq!((ring.len(), ring.before()), (0, Condition::of(&look)));
}

#[test]
fn ring_names_states_and_waits() {
    let begun = sluicegate_base::clock::now();
    let mut look = usual(begun);
    let mut ring = Ring::new(&look);
    for state in ["recovery", "congestion_avoidance", "recovery"] {
        look.state = state;
        ring.record(&look);
    }
    let name = |(_, what)| match what {
        Occurrence::State(number) => ring.state(number),
        _ => panic!("{what:?}"),
    };
    let names: Vec<_> = ring.events().map(name).collect();
    assert_eq!(names, ["recovery", "congestion_avoidance", "recovery"]);
    assert_eq!(ring.state(ring.before().state), "congestion_avoidance");
    ring.wait(Wait::Pacing, begun + ms(5));
    // A wait may have begun before the newest event.
    ring.wait(Wait::Scheduling, begun + ms(4));
    let last: Vec<_> = ring.events().skip(3).collect();
    assert_eq!(last[0], (ms(5), Occurrence::Wait(Wait::Pacing)));
    assert_eq!(last[1], (ms(5), Occurrence::Wait(Wait::Scheduling)));
}

#[test]
fn states_beyond_the_bound_share_a_name() {
    const NAMES: [&str; 20] = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r",
        "s", "t",
    ];
    let mut look = usual(sluicegate_base::clock::now());
    let mut ring = Ring::new(&look);
    for name in NAMES {
        look.state = name;
        ring.record(&look);
    }
    assert_eq!(ring.len(), 20);
    assert!(ring.events().all(|(_, what)| matches!(what, Occurrence::State(0..16))));
}

#[test]
fn event_is_small() {
    assert!(size_of::<event::Event>() <= 32);
    const { assert!(Recorder::BYTES < 9216) }
}

#[test]
fn pool_lends_what_its_memory_has_room_for() {
    let look = usual(sluicegate_base::clock::now());
    let mut pool = RecorderPool::default();
    assert!(!pool.is_used() && pool.take(&look).is_none());
    pool.adopt(2 * Recorder::BYTES as u64 + 100, STALL);
    let (first, second) = (pool.take(&look).unwrap(), pool.take(&look).unwrap());
    assert!(pool.take(&look).is_none());
    assert_eq!((pool.lent(), pool.refused()), (2, 2));
    pool.adopt(Recorder::BYTES as u64, STALL);
    assert!(pool.wants_back());
    pool.put_back(first);
    assert!(!pool.wants_back() && pool.take(&look).is_none());
    pool.put_back(second);
    let mut again = pool.take(&look).unwrap();
    assert_eq!((again.ring().len(), again.due(), pool.lent()), (0, None, 1));
    again.look(&look, STALL);
    pool.adopt(0, STALL);
    pool.put_back(again);
    assert!(!pool.is_used());
}
