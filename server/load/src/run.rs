//! A run: threads, their shares, and the report.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use rustix::process::{Resource, getrlimit, setrlimit};
use sluicegate_cc::Registry;

use crate::barrier::StartBarrier;
use crate::busy::Busy;
use crate::client::connector::Connector;
use crate::context::{Context, Line};
use crate::log::{LogFile, RequestLog, RunStart};
use crate::options::{Format, LoadArgs};
use crate::outputs::Outputs;
use crate::plan::{Plan, RequestCount};
use crate::printer::Printer;
use crate::report::Report;
use crate::tally::Tally;
use crate::worker::{Share, Worker};

/// Exit code of a run without any response, or with an incomplete report.
const EXIT_FAILED: u8 = 1;
/// Exit code of a run whose request times are above what --slo-p99 allows.
const EXIT_TOO_SLOW: u8 = 3;
/// Descriptors that the process needs beside one for each connection, another for its trace, and three for each thread.
const OTHER_DESCRIPTORS: u64 = 32;

/// Source of the time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Returns the monotonic time.
    pub now: fn() -> Instant,
    /// Returns the time since 1970.
    pub unix: fn() -> Duration,
}

/// Loads a server as `args` say, writes progress and the report to `out` and everything else to `err`, and returns the exit code: 1
/// if there was no response at all, or the report misses something, and 3 if request times are above what the options allow. Blocks until the run is over, or for a moment once `stop` is
/// true: then the report has what was done so far.
///
/// # Errors
/// The options contradict each other, or name something that cannot be used; the output is broken.
pub fn run(
    args: &LoadArgs,
    registry: &Registry,
    clock: Clock,
    stop: &AtomicBool,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<u8> {
    let args = &args.without_zeros();
    let plan = Plan::new(args)?;
    allow_descriptors(args)?;
    // Mistakes are found before anything starts.
    drop(Connector::new(&plan, registry)?);
    let start = RunStart { at: (clock.now)(), unix: (clock.unix)() };
    let mut outputs = Outputs::open(args, start)?;
    for warning in plan.warnings() {
        writeln!(err, "warning: {warning}")?;
    }
    let mut printer = Printer::new(args, out, err, &mut outputs.intervals);
    printer.report("starting benchmark...")?;
    for share in shares(&plan) {
        printer.report(&share.announcement(args))?;
    }
    let log = outputs.log.as_ref();
    let (mut tally, printed) =
        run_threads(&plan, registry, clock, stop, log, &mut |line| printer.print(line));
    let (intervals, mut unwritten) = (printer.intervals, printer.unwritten);
    let stopped = stop.load(Ordering::Relaxed);
    tally.close(plan.total().filter(|_| !stopped));
    let wall = (clock.now)().saturating_duration_since(start.at);
    let warm_up = args.duration.and(args.warm_up_time).unwrap_or_default();
    let counted = wall.saturating_sub(warm_up);
    let report = Report {
        tally: &tally,
        is_quic: plan.protocol.is_quic(),
        unix: start.unix,
        wall,
        counted: args.duration.map_or(counted, |time| time.min(counted)),
        verdict: Busy::verdict(&tally.busy),
    };
    unwritten.extend(outputs.write(args, &report, &intervals));
    let file = plan.session_file.as_ref();
    unwritten.extend(file.and_then(|file| file.store().err()));
    printed?;
    match args.format {
        Format::H2load => out.write_all(report.h2load(args).as_bytes())?,
        Format::H2loadLegacy => out.write_all(report.legacy(args).as_bytes())?,
        Format::Json => writeln!(out, "{}", report.json())?,
    }
    if stopped {
        writeln!(err, "interrupted: the report has what was done so far")?;
    }
    err.write_all(report.notes(args).as_bytes())?;
    for error in &unwritten {
        writeln!(err, "error: {error}")?;
    }
    let failed = tally.completed == 0 || !tally.errors.is_empty() || !unwritten.is_empty();
    Ok(match (failed, report.missed_slo(args)) {
        (true, _) => EXIT_FAILED,
        (false, Some(_)) => EXIT_TOO_SLOW,
        (false, None) => 0,
    })
}

/// Runs the threads, prints what they say meanwhile, and returns the sum of their figures and the result of printing. A thread that
/// fails leaves the figures of the others.
fn run_threads(
    plan: &Plan,
    registry: &Registry,
    clock: Clock,
    stop: &AtomicBool,
    log: Option<&LogFile>,
    print: &mut impl FnMut(Line) -> std::io::Result<()>,
) -> (Tally, std::io::Result<()>) {
    let (lines, received) = channel();
    let barrier = StartBarrier::new(plan.options.threads, clock.now);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut sum = Tally::default();
        for share in shares(plan) {
            let log = log.map(RequestLog::new);
            let lines = lines.clone();
            let arrival = barrier.arrival();
            let work = move || -> anyhow::Result<Tally> {
                let cx = Context::new(plan, log, lines, clock.now)?;
                let connector = Connector::new(plan, registry)?;
                Ok(Worker::new(cx, connector, share, stop, arrival)?.run())
            };
            let name = format!("load {}", share.thread);
            let thread = std::thread::Builder::new().name(name.clone());
            match thread.spawn_scoped(scope, work) {
                Ok(thread) => threads.push((name, thread)),
                Err(error) => sum.errors.push(format!("no thread `{name}`: {error}")),
            }
        }
        drop(lines);
        // The threads go on without a reader, so that the report is complete.
        let printed = received.iter().try_for_each(print);
        for (name, thread) in threads {
            let result = thread.join().unwrap_or_else(|_| Err(anyhow!("it panicked")));
            match result {
                Ok(tally) => sum.merge(tally),
                Err(error) => sum.errors.push(format!("thread `{name}` failed: {error:#}")),
            }
        }
        (sum, printed)
    })
}

/// Returns each thread's part; the first ones have what does not divide.
fn shares(plan: &Plan) -> impl Iterator<Item = Share> {
    let options = &plan.options;
    let threads = options.threads;
    let part = move |all: u64, thread: u64| all / threads + u64::from(thread < all % threads);
    (0..threads).map(move |thread| {
        let clients = part(options.clients, thread);
        Share {
            thread,
            clients,
            requests: plan.requests.map(|requests| match requests {
                RequestCount::Total(all) => part(all, thread),
                RequestCount::PerConnection(each) => each * clients,
            }),
            rate: options.rate.map(|all| part(all, thread)),
        }
    })
}

/// Raises the limit of open files as far as the connections need.
///
/// # Errors
/// The system does not allow that many.
fn allow_descriptors(args: &LoadArgs) -> anyhow::Result<()> {
    let of_each = 1 + u64::from(args.qlog_file_base.is_some());
    let needed = args.clients * of_each + 3 * args.threads + OTHER_DESCRIPTORS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    limit.current = Some(needed);
    let most = limit.maximum;
    // Root may raise the upper limit, too.
    limit.maximum = most.map(|most| most.max(needed));
    setrlimit(Resource::Nofile, limit).map_err(|error| {
        anyhow!(
            "{} connections need {needed} open files, and only {} are allowed ({error}): raise the limit (ulimit -Hn {needed}, as root)",
            args.clients,
            most.unwrap_or(needed),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;

    fn args(words: &[&str]) -> LoadArgs {
        options::parse(words).unwrap()
    }

    #[test]
    fn threads_divide_connections_and_requests() {
        let url = "https://127.0.0.1/";
        let mut plan = Plan::new(&args(&["-n10", "-c5", "-t3", "-r4", url])).unwrap();
        let all: Vec<_> = shares(&plan).collect();
        let column = |of: fn(&Share) -> u64| all.iter().map(of).collect::<Vec<_>>();
        assert_eq!(column(|s| s.clients), [2, 2, 1]);
        assert_eq!(column(|s| s.requests.unwrap()), [4, 3, 3]);
        assert_eq!(column(|s| s.rate.unwrap()), [2, 1, 1]);
        plan.requests = Some(RequestCount::PerConnection(7));
        let requests = shares(&plan).map(|share| share.requests.unwrap());
        assert!(requests.eq([14, 14, 7]));
        assert_eq!(plan.total(), Some(35));
    }

    #[test]
    fn open_files_are_allowed_or_refused_with_the_limit() {
        let before = getrlimit(Resource::Nofile);
        let words = ["-n1000000", "-c1000000", "--qlog-file-base", "q"];
        match allow_descriptors(&args(&words)) {
            Ok(()) => {
                let now = getrlimit(Resource::Nofile);
                assert!(now.current.is_none_or(|current| current > 2_000_000));
                setrlimit(Resource::Nofile, before).unwrap();
            }
            Err(error) => {
                let (error, most) = (error.to_string(), before.maximum.unwrap().to_string());
                assert!(error.contains(&most) && error.contains("ulimit"), "{error}");
                assert_eq!(getrlimit(Resource::Nofile), before);
            }
        }
    }
}
