//! Takes samples of what the process allocates, by jemalloc's profiler.
//!
//! The profiler is enabled when the process starts (`server/src/main.rs`), at a cost that is lost in the noise until it is active.
//! While a recording activates it, the thread that allocates unwinds its stack within `malloc`, once per 512 KiB on average. jemalloc
//! writes its accounts to a temporary file, before and after, and the profile is the difference. It keeps an account for each thread
//! and stack: they are bounded, and a reset would not free them. A large block is sampled more often than a small one, which the
//! estimates take into account.

mod dump;
mod profile;

use std::ffi::{CString, c_char};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;
use tikv_jemalloc_ctl::{profiling, raw};

use self::dump::Dump;
use self::profile::HeapProfile;
use super::error::RecordError;
use super::graph::Profile;
use super::query::Memory;
use super::wait::wait;

/// jemalloc's switch for samples. Those that were taken stay.
const ACTIVE: &[u8] = b"prof.active\0";
/// Writes the samples to the file of a path.
const DUMP: &[u8] = b"prof.dump\0";

/// The profiler while it is active because of this recording, and off afterwards.
struct Sampling;

impl Sampling {
    fn start() -> Result<Self, RecordError> {
        set_active(true)?;
        Ok(Sampling)
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        // It could be activated.
        let _ = set_active(false);
    }
}

/// Records what the process allocates within a time. Returns `None` if that is cancelled.
///
/// It is the difference of two dumps: jemalloc keeps an account for each thread and stack for as long as it counts freed blocks, too,
/// and a reset would leave the old accounts beside new ones. Where the profiler is active already, since `MALLOC_CONF` said so when
/// the process started, the result is everything from then on, and it stays active. There may be one recording at a time.
pub(super) fn record(
    memory: Memory,
    length: Duration,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Option<Box<dyn Profile>>, RecordError> {
    if !profiling::prof::read().unwrap_or(false) {
        return Err(RecordError::NoHeapProfiler);
    }
    let since_start = is_active()?;
    let before = (!since_start).then(dump).transpose()?.unwrap_or_default();
    let sampling = (!since_start).then(Sampling::start).transpose()?;
    if !wait(length, is_cancelled) {
        return Ok(None);
    }
    drop(sampling);
    let recorded = dump()?.since(&before);
    let length = (!since_start).then_some(length);
    let profile = HeapProfile::new(&recorded, memory, length);
    tracing::info!(bytes = profile.bytes(), "recorded a profile");
    Ok(Some(Box::new(profile)))
}

/// Returns the samples so far.
fn dump() -> Result<Dump, RecordError> {
    let file = NamedTempFile::new().map_err(RecordError::TemporaryFile)?;
    write_dump(file.path())?;
    let bytes = fs::read(file.path()).map_err(RecordError::HeapDump)?;
    // Paths of libraries, at its end, may be anything.
    Dump::parse(&String::from_utf8_lossy(&bytes)).ok_or(RecordError::UnknownHeapDump)
}

#[expect(unsafe_code, reason = "jemalloc's options have no types")]
fn is_active() -> Result<bool, RecordError> {
    // SAFETY: jemalloc's switch is a bool.
    Ok(unsafe { raw::read(ACTIVE) }?)
}

#[expect(unsafe_code, reason = "jemalloc's options have no types")]
fn set_active(active: bool) -> Result<(), RecordError> {
    // SAFETY: jemalloc's switch is a bool.
    Ok(unsafe { raw::write(ACTIVE, active) }?)
}

#[expect(unsafe_code, reason = "jemalloc's options have no types")]
fn write_dump(path: &Path) -> Result<(), RecordError> {
    let path = CString::new(path.as_os_str().as_bytes())
        .map_err(|error| RecordError::HeapDump(error.into()))?;
    // SAFETY: jemalloc takes a pointer to a string that ends with a zero byte, and reads it before it returns.
    Ok(unsafe { raw::write::<*const c_char>(DUMP, path.as_ptr()) }?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_that_is_cancelled_leaves_the_profiler_as_it_was() {
        // The library's tests have jemalloc without the options of the program.
        let recorded = record(Memory::Allocated, Duration::from_secs(60), &|| true);
        match recorded {
            Ok(profile) => assert!(profile.is_none() && !is_active().unwrap()),
            Err(error) => assert!(error.to_string().contains("MALLOC_CONF"), "{error}"),
        }
    }
}
