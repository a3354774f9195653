//! A controller allocates nothing per packet, and keeps little memory.

#![expect(
    unsafe_code,
    reason = "a global allocator that counts is an unsafe trait's implementation"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_cc::{
    Algorithm, Controller, Event, Init, Layer, OptionKind, Options, PacketState, PathChange,
    PersistentCongestion, Registry, Sent, Time, Value,
};
use sluicegate_sim::{Bottleneck, Flow, LossWindow, Reorder, Simulation, Source};

/// Calls of a path before the count begins: buffers take the size that the path needs.
const WARM_UP: u64 = 20_000;

/// Calls that each path must see after that.
const CALLS: u64 = 100_000;

/// Bytes that the controller and the detector of an idle path may keep.
const IDLE: i64 = 2_048;

thread_local! {
    static COUNTED: Cell<Option<u64>> = const { Cell::new(None) };
    /// Bytes allocated while [`COUNTED`] says so, without those freed meanwhile.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, which counts while [`COUNTED`] says so.
struct Counting;

// SAFETY: every call goes to `System` unchanged, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        hold(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        hold(0, layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`, and `pointer` came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        hold(size, layout.size());
        // SAFETY: the caller keeps the contract of `realloc`, and `pointer` came from `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    // A thread that ends has no count any more.
    let _ = COUNTED.try_with(|counted| counted.set(counted.get().map(|count| count + 1)));
}

fn hold(allocated: usize, freed: usize) {
    let change = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    let counts = COUNTED.try_with(|counted| counted.get().is_some());
    if counts.unwrap_or(false) {
        let _ = HELD.try_with(|held| held.set(held.get() + change(allocated) - change(freed)));
    }
}

/// Allocations of this thread while `call` runs.
fn allocations<T>(call: impl FnOnce() -> T) -> (T, u64) {
    COUNTED.set(Some(0));
    let value = call();
    let count = COUNTED.take().unwrap_or(0);
    (value, count)
}

/// Calls and allocations of a [`Watched`] controller.
#[derive(Debug, Default)]
struct Record {
    calls: AtomicU64,
    early: AtomicU64,
    late: AtomicU64,
    /// Bytes that controller and detector hold after the latest call.
    held: AtomicI64,
}

/// A controller, with the detector that a transport runs beside it, whose allocations are counted.
#[derive(Debug)]
struct Watched {
    watched: Box<dyn Controller>,
    persistent: PersistentCongestion,
    record: Arc<Record>,
}

impl Watched {
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut dyn Controller, &mut PersistentCongestion) -> T,
    ) -> T {
        let (watched, persistent) = (self.watched.as_mut(), &mut self.persistent);
        let (value, count) = allocations(|| {
            let value = call(watched, persistent);
            let _ = (watched.pacing_rate(), watched.send_quantum(), watched.snapshot());
            value
        });
        let calls = self.record.calls.fetch_add(1, Ordering::Relaxed);
        let counter = if calls < WARM_UP { &self.record.early } else { &self.record.late };
        counter.fetch_add(count, Ordering::Relaxed);
        self.record.held.store(HELD.get(), Ordering::Relaxed);
        value
    }
}

impl Layer for Watched {
    fn inner(&self) -> &dyn Controller {
        &*self.watched
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        &mut *self.watched
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        self.call(|c, _| c.on_sent(now, sent))
    }
    fn on_event(&mut self, event: &Event<'_>) {
        self.call(|c, persistent| {
            c.on_event(event);
            persistent.on_event(event);
        });
    }
    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        self.call(|c, _| c.on_app_limited(now, in_flight));
    }
    fn on_persistent_congestion(&mut self, now: Time) {
        self.call(|c, _| c.on_persistent_congestion(now));
    }
    fn on_discarded(&mut self, now: Time, packet_number: u64) {
        self.call(|c, _| c.on_discarded(now, packet_number));
    }
    fn on_path_changed(&mut self, now: Time, change: PathChange) {
        self.call(|c, _| c.on_path_changed(now, change));
    }
    fn on_mtu(&mut self, mtu: u64) {
        self.call(|c, _| c.on_mtu(mtu));
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Paths that between them bring acknowledgements, losses, marks, timeouts, reordering, and pauses of the application;
/// with the time that they are run for.
fn paths() -> Vec<(&'static str, Bottleneck, Source, Duration)> {
    let plain = Bottleneck::new(50_000_000, ms(40), 1.0);
    let lossy = Bottleneck {
        loss: vec![LossWindow::always(0.001)],
        ack_loss: vec![LossWindow::always(0.02)],
        ..plain.clone()
    };
    let dark = Bottleneck {
        loss: (0..10)
            .map(|i| LossWindow {
                from: ms(6_000 * i + 3_000),
                until: ms(6_000 * i + 5_000),
                probability: 1.0,
            })
            .collect(),
        ..plain.clone()
    };
    let marking = Bottleneck {
        reorder: Some(Reorder { probability: 0.02, by: ms(1) }),
        ce_above: Some(60_000),
        ..plain.clone()
    };
    let periods = Source::Periodic { bytes: 100_000, every: ms(100), times: 3_000 };
    let bursts = (0..1_000).map(|i| (ms(i * 500 + i * i % 300), 400_000));
    vec![
        ("full queue", plain.clone(), Source::Endless, ms(30_000)),
        ("random loss", lossy, Source::Endless, ms(150_000)),
        ("blackouts", dark, Source::Endless, ms(70_000)),
        ("marks and late packets", marking, Source::Endless, ms(150_000)),
        ("small amounts", plain.clone(), periods, ms(150_000)),
        ("bursts", plain, Source::Bursts(bursts.collect()), ms(300_000)),
    ]
}

/// Returns the built-in algorithms, each with every word of its choices and all else at its default.
fn choices() -> Vec<(String, Algorithm, Options)> {
    let mut all = Vec::new();
    for algorithm in &Registry::builtin() {
        all.push((algorithm.name.to_owned(), *algorithm, algorithm.defaults()));
        for spec in algorithm.options {
            let OptionKind::Choice { default, among } = spec.kind else {
                continue;
            };
            for word in among.iter().filter(|word| **word != default) {
                let mut options = algorithm.defaults();
                options.set(spec.name, Value::Choice(word)).expect("valid");
                all.push((format!("{}, {word}", algorithm.name), *algorithm, options));
            }
        }
    }
    all
}

/// Runs one algorithm on one path.
fn run(
    algorithm: &Algorithm,
    options: &Options,
    bottleneck: Bottleneck,
    source: Source,
    limit: Duration,
) -> Arc<Record> {
    let init = Init { mtu: 1_200, initial_window_packets: 10, seed: 1 };
    let record = Arc::new(Record::default());
    HELD.set(0);
    let build = || (algorithm.build)(&init, options);
    let watched = Watched {
        watched: allocations(build).0,
        persistent: allocations(PersistentCongestion::new).0,
        record: Arc::clone(&record),
    };
    Simulation::new(bottleneck, 1).with(Flow::new(source), Box::new(watched)).run(limit);
    record
}

#[test]
fn idle_path_keeps_less_than_two_kilobytes() {
    let detector = i64::try_from(size_of::<PersistentCongestion>()).expect("small");
    for (name, algorithm, options) in choices() {
        for (path, bottleneck, _, _) in paths() {
            // Then nothing is in flight for the rest of the time.
            let source = Source::Bulk(10_000_000);
            let record = run(&algorithm, &options, bottleneck, source, ms(60_000));
            let held = detector + record.held.load(Ordering::Relaxed);
            println!("{name}, {path}: {held} bytes");
            assert!(held < IDLE, "{name}, {path}: {held} bytes");
            assert!(held > detector, "{name}, {path}: nothing was counted");
        }
    }
}

#[test]
fn no_algorithm_allocates_after_its_first_packets() {
    for (name, algorithm, options) in choices() {
        for (path, bottleneck, source, limit) in paths() {
            let record = run(&algorithm, &options, bottleneck, source, limit);
            let [calls, early, late] = [&record.calls, &record.early, &record.late]
                .map(|counter| counter.load(Ordering::Relaxed));
            println!(
                "{name}, {path}: {calls} calls, {early} allocations in the first {WARM_UP}, {late} after"
            );
            assert!(calls >= WARM_UP + CALLS, "{name}, {path}: only {calls} calls");
            assert_eq!(late, 0, "{name}, {path}");
        }
    }
}

#[test]
fn allocations_are_counted() {
    let (boxed, one) = allocations(|| Box::new(17));
    assert_eq!((*boxed, one), (17, 1));
    let (_, grown) = allocations(|| {
        let mut values = vec![1u8];
        values.reserve_exact(100);
        values
    });
    assert_eq!(grown, 2);
    assert_eq!(allocations(|| 1 + 1), (2, 0));
}
