//! The only place where the server reads the time.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

thread_local! {
    static SET: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Returns the monotonic time, for timers and for quiche.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the time from one moment to another; zero if `to` is the earlier one. Most often they are the same turn's: then nothing is
/// subtracted, which takes longer than to see that.
pub fn between(from: Instant, to: Instant) -> Duration {
    if from == to { Duration::ZERO } else { to.saturating_duration_since(from) }
}

/// Sets the time since 1970 that this thread reads from now on, for runs in virtual time; `None` is the system's again.
pub fn set_unix(unix: Option<Duration>) {
    SET.set(unix);
}

/// Returns the time since 1970, for what outlives the process, such as tokens, and for dates.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn unix() -> Duration {
    if let Some(unix) = SET.get() {
        return unix;
    }
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Returns a time since 1970 as people write it, in UTC and whole seconds.
pub fn date(unix: Duration) -> String {
    let seconds = i64::try_from(unix.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

/// Returns the CPU time that all threads of the process have used.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
