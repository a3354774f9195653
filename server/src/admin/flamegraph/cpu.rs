//! Takes samples of the CPU time of this process by pprof.
//!
//! pprof works within the process and needs no privileges: a timer of the process's CPU time (ITIMER_PROF) interrupts the threads that
//! run, and the handler of its signal unwinds their stacks. A timer for each thread and an unwinder outside the handler would count
//! more exactly, but take 1,500 lines of signal handlers and unwind tables. The limits of pprof, and what it costs:
//!
//! - The kernel looks at the timer when its own clock ticks. Asked for 997 samples for each second of CPU time, it took 217 to 244 where
//!   the clock ticks 250 times a second, so `frequency` ends at 250. Work between two ticks is not seen; the title of a graph states
//!   the CPU time beside the samples.
//! - One thread at a time unwinds. Samples of other threads meanwhile are lost.
//! - Its feature framehop-unwinder unwinds by the tables that every build contains (`.eh_frame`), so nothing needs frame pointers, which
//!   would take a register from every function. It checks addresses before it reads them: a wrong rule ends a stack, not the process.
//! - The symbol tables do not know functions that the compiler has inlined, so these count as their callers. On 64-bit ARM, a function
//!   that calls no other counts as its caller, too, because the unwinder starts from the link register.
//! - pprof would name functions by the debugging information, and keep 75 MB of it in memory; [`names`] uses the symbol tables. It still
//!   reads the debugging information before each recording, for a backtrace that is not used. That takes 1 to 2 s, and longer where
//!   other work keeps the cores busy.
//! - From the first recording on, the process holds 30 MB more: room for samples, copies of code and unwind tables. An empty temporary
//!   file stays when the process ends.
//! - A recording holds at most 15,000 stacks: 250 a second, for a minute.
//!
//! The signal interrupts system calls. The loops of the dataplane take that for a wake-up, and so do tokio and the standard library.
//! Profiles do not contain the time that threads wait: that takes a sample of a sleeping thread, and events of the scheduler need
//! CAP_PERFMON.

mod profile;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pprof::{Frames, ProfilerGuardBuilder, Report, Symbol};
use signal_hook::consts::SIGPROF;
use signal_hook::low_level::raise;
use sluicegate_base::clock;
use tempfile::NamedTempFile;

use self::profile::CpuProfile;
use super::error::RecordError;
use super::graph::Profile;
use super::query::Threads;
use super::symbols::{names, symbol};
use super::wait::wait;

/// Frequency for which pprof sets no timer: the interval is less than a microsecond, and zero stops a timer (setitimer(2)).
const NO_TIMER: i32 = 2_000_000;

/// Records a profile, with so many samples for each second of CPU time of the process. Returns `None` if it is cancelled.
///
/// There may be one recording at a time.
pub(super) fn record(
    frequency: u16,
    threads: Threads,
    length: Duration,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Option<Box<dyn Profile>>, RecordError> {
    // pprof would keep this error until the process ends.
    NamedTempFile::new().map_err(RecordError::TemporaryFile)?;
    prepare()?;
    let sampling = ProfilerGuardBuilder::default().frequency(frequency.into()).build()?;
    // pprof takes a backtrace of its own first, with debugging information that stays in memory.
    backtrace::clear_symbol_cache();
    // What came before took a second or more.
    tracing::info!(seconds = length.as_secs_f64(), "recording a profile");
    let cpu_time_before = clock::cpu_time();
    if !wait(length, is_cancelled) {
        return Ok(None);
    }
    let unnamed = sampling.report().build_unresolved()?;
    let cpu_time = clock::cpu_time().saturating_sub(cpu_time_before);
    // The timer stops before functions get their names, which takes longer.
    drop(sampling);
    let addresses = unnamed.data.keys().flat_map(|stack| {
        let frames = stack.frames.iter().enumerate();
        frames.map(|(index, frame)| address(index, frame.ip))
    });
    let names = names(&addresses.collect());
    let samples = unnamed.data.into_iter().map(|(stack, count)| {
        let frames = stack.frames.iter().enumerate();
        let frames = frames.map(|(index, frame)| vec![function(&names, address(index, frame.ip))]);
        let thread = &stack.thread_name[..stack.thread_name_length];
        let frames = Frames {
            frames: frames.collect(),
            thread_name: String::from_utf8_lossy(thread).into_owned(),
            thread_id: stack.thread_id,
            sample_timestamp: stack.sample_timestamp,
        };
        (frames, count)
    });
    let report = Report { data: samples.collect(), timing: unnamed.timing };
    let profile = CpuProfile { report, cpu_time, length, frequency, threads };
    tracing::info!(
        samples = profile.samples(),
        cpu_time = cpu_time.as_secs_f64(),
        "recorded a profile"
    );
    Ok(Some(Box::new(profile)))
}

/// Returns an address in the instruction that a frame is at. All but the innermost one have the address to return to, which is
/// after the call, and may be after the function.
fn address(index: usize, ip: usize) -> usize {
    if index == 0 { ip } else { ip.saturating_sub(1) }
}

/// Returns the function at an address, by the symbol tables. pprof would read the debugging information, which holds names
/// without their modules and types, and keep it in memory.
fn function(names: &BTreeMap<usize, String>, address: usize) -> Symbol {
    symbol(names.get(&address).map_or("[unknown]", String::as_str))
}

/// Has pprof read the unwind tables of the program, once.
///
/// It reads them when the first sample is taken, in the handler of the signal, and allocates memory there. A thread that the signal
/// interrupts inside the allocator would wait for itself. So the first signal is one that this thread, which is elsewhere, sends to
/// itself.
fn prepare() -> Result<(), RecordError> {
    static PREPARED: AtomicBool = AtomicBool::new(false);
    if PREPARED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let _sampling = ProfilerGuardBuilder::default().frequency(NO_TIMER).build()?;
    raise(SIGPROF).map_err(RecordError::Signal)?;
    PREPARED.store(true, Ordering::Relaxed);
    Ok(())
}
