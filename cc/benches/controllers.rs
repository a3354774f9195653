//! Measures the cost of a controller per packet, each registered algorithm beside one that does nothing.
//!
//! On the path of [`SteadyPath`], `sent` is one packet leaving, with the questions that pacing asks; `acked` is one ACK of two packets;
//! `packet` is one packet from leaving to being acknowledged, all included. The transport's own records are in each of them, and the
//! controller that does nothing shows how much they are.

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use sluicegate_cc::{Controller, Registry};
use sluicegate_sim::{FixedWindow, SteadyPath};

/// Packets on the path before anything is measured: a hundred losses.
const WARM_UP: u64 = 1_000_000;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed<T>(spent: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    *spent += start.elapsed();
    done
}

/// Returns the time for `times` of what is counted, measured over half windows.
fn measure(times: u64, mut half_window: impl FnMut(&mut Duration) -> u64) -> Duration {
    let (mut spent, mut done) = (Duration::ZERO, 0);
    while done < times {
        done += half_window(&mut spent);
    }
    spent.mul_f64(times as f64 / done as f64)
}

fn controllers(criterion: &mut Criterion) {
    let registry = Registry::builtin();
    let listed =
        registry.iter().map(|algorithm| (algorithm.name, SteadyPath::of(algorithm, WARM_UP)));
    let nothing: Box<dyn Controller> = Box::new(FixedWindow);
    let nothing = ("nothing", SteadyPath::new(nothing, WARM_UP));
    let mut paths: Vec<_> = std::iter::once(nothing).chain(listed).collect();
    let mut group = criterion.benchmark_group("sent");
    for (name, path) in &mut paths {
        group.bench_function(*name, |bencher| {
            bencher.iter_custom(|times| {
                measure(times, |spent| {
                    path.acknowledge_half();
                    timed(spent, || path.fill())
                })
            });
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("acked");
    for (name, path) in &mut paths {
        group.bench_function(*name, |bencher| {
            bencher.iter_custom(|times| {
                measure(times, |spent| {
                    path.fill();
                    timed(spent, || path.acknowledge_half())
                })
            });
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("packet");
    for (name, path) in &mut paths {
        group.bench_function(*name, |bencher| {
            bencher.iter_custom(|times| {
                measure(times, |spent| {
                    timed(spent, || {
                        path.acknowledge_half();
                        path.fill()
                    })
                })
            });
        });
    }
    group.finish();
}

criterion_group!(benches, controllers);
criterion_main!(benches);
