//! What requests wait for whose cause is known, from many seeds. Time is the test's own.

use std::ops::Range;
use std::time::Duration;

use sluicegate_base::observe::account::{Account, WaitTimes};
use sluicegate_sim::Rng;

use super::*;

const SEEDS: u64 = 100;

/// A limit that is known.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// All places at the upstream are taken.
    BusyUpstream,
    /// The upstream's host accepts connections late.
    LateConnection,
    /// The upstream takes seconds for the head.
    LateHead,
    /// The upstream sends its body in small parts, each after a pause.
    SlowBody,
    /// The disk takes 25 ms for each block.
    SlowDisk,
    /// The path takes each block late.
    SlowPath,
}

impl Cause {
    const ALL: [Cause; 6] = [
        Cause::BusyUpstream,
        Cause::LateConnection,
        Cause::LateHead,
        Cause::SlowBody,
        Cause::SlowDisk,
        Cause::SlowPath,
    ];

    /// Returns the wait that says so.
    fn wait(self) -> Wait {
        match self {
            Cause::BusyUpstream => Wait::Queue,
            Cause::LateConnection => Wait::UpstreamConnect,
            Cause::LateHead => Wait::UpstreamResponse,
            Cause::SlowBody => Wait::UpstreamBody,
            Cause::SlowDisk => Wait::File,
            Cause::SlowPath => Wait::Congestion,
        }
    }

    /// Returns the milliseconds that each step takes: a place at the upstream, its connection, its head, each block, and the path for each
    /// block.
    fn steps(self) -> [Range<f64>; 5] {
        let quick = [0.0..5.0, 0.0..5.0, 0.0..10.0, 0.0..1.0, 0.0..0.4];
        let [queue, connect, head, block, path] = quick;
        let late = 1500.0..9000.0;
        match self {
            Cause::BusyUpstream => [late, connect, head, block, path],
            Cause::LateConnection => [queue, late, head, block, path],
            Cause::LateHead => [queue, connect, late, block, path],
            Cause::SlowBody => [queue, connect, head, 50.0..500.0, path],
            Cause::SlowDisk => [queue, connect, head, 24.0..26.0, path],
            Cause::SlowPath => [queue, connect, head, block, 30.0..300.0],
        }
    }
}

/// An exchange and its connection, at a time of its own.
struct Run {
    exchange: FrontExchange,
    connection: Account,
    now: Instant,
    rng: Rng,
}

impl Run {
    /// Begins a request to a handler that at first waits for `wait`.
    fn begin(wait: Wait, seed: u64) -> Run {
        let now = clock::now();
        let mut exchange = FrontExchange::new(false, now);
        exchange.prepare(&request(head("GET", "/", &[]), None, false), LIMIT, CREDIT);
        exchange.hand_over(false, wait);
        let connection = Account::begin(Wait::Application, now);
        let mut run = Run { exchange, connection, now, rng: Rng::new(seed) };
        run.note(None);
        run
    }

    fn pass(&mut self, milliseconds: &Range<f64>) {
        let Range { start, end } = milliseconds;
        let time = start + (end - start) * self.rng.unit();
        self.now += Duration::from_secs_f64(time / 1000.0);
    }

    fn note(&mut self, output: Option<RequestWait>) {
        let moment = (self.now, self.connection.at(self.now));
        self.exchange.note_wait(false, output, || moment);
    }

    fn tell(&mut self, message: ToFront) {
        self.exchange.on_message(message);
        self.note(None);
    }

    /// Sends a block, for which the path takes a while.
    fn send(&mut self, path: &Range<f64>) {
        self.exchange.on_message(data("block"));
        self.connection.enter(Wait::Congestion, self.now);
        self.note(Some(RequestWait::Connection));
        self.pass(path);
        assert_eq!(take(&mut self.exchange), "block wait");
        self.connection.enter(Wait::Application, self.now);
        self.note(None);
    }
}

/// Runs a response and returns its duration, and on what it was spent.
fn run(cause: Cause, seed: u64) -> (Duration, WaitTimes) {
    let [queue, connect, late, block, path] = cause.steps();
    let of_file = matches!(cause, Cause::SlowDisk);
    let mut run = Run::begin(if of_file { Wait::File } else { Wait::Queue }, seed);
    let begun = run.now;
    if !of_file {
        run.pass(&queue);
        run.tell(ToFront::Waits(Wait::UpstreamConnect));
        run.pass(&connect);
        run.tell(ToFront::Waits(Wait::UpstreamResponse));
        run.pass(&late);
    }
    run.tell(of_status(200, None, false));
    for _ in 0..20 + seed % 20 {
        run.pass(&block);
        run.send(&path);
    }
    run.tell(ToFront::End(None));
    let spent = run.exchange.account().spent(run.now, &run.connection.at(run.now));
    (run.now - begun, spent)
}

#[test]
fn known_causes_are_named() {
    for cause in Cause::ALL {
        for seed in 0..SEEDS {
            let (duration, spent) = run(cause, seed);
            let waits: Vec<_> = spent.iter().collect();
            let sum: Duration = waits.iter().map(|(_, time)| *time).sum();
            assert_eq!(sum, duration, "{cause:?}, seed {seed}: {waits:?}");
            let (wait, longest) = spent.longest().unwrap();
            assert_eq!(wait, cause.wait(), "{cause:?}, seed {seed}: {waits:?}");
            assert!(longest >= sum.mul_f64(0.95), "{cause:?}, seed {seed}: {waits:?}");
        }
    }
}
