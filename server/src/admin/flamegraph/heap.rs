//! Takes samples of what the process allocates, by jemalloc's profiler.
//!
//! The profiler is enabled when the process starts (`server/src/main.rs`), which costs next to nothing until it is active.

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
pub(super) use self::profile::HeapProfile;
use super::error::RecordError;
use super::wait::wait;

/// jemalloc's switch for samples. Those that were taken stay.
const ACTIVE: &[u8] = b"prof.active\0";
/// Drops all samples, and takes the logarithm of the interval of the next ones.
const RESET: &[u8] = b"prof.reset\0";
/// Writes the samples to the file of a path.
const DUMP: &[u8] = b"prof.dump\0";

/// The profiler while it is active because of this recording. Afterwards it is off, and its samples are dropped.
struct Sampling {
    /// Logarithm of the mean interval between samples, in bytes.
    interval: usize,
}

impl Sampling {
    fn start() -> Result<Self, RecordError> {
        let interval = profiling::lg_prof_sample::read()?;
        let sampling = Sampling { interval };
        sampling.reset()?;
        set_active(true)?;
        Ok(sampling)
    }

    #[expect(unsafe_code, reason = "jemalloc's options have no types")]
    fn reset(&self) -> Result<(), RecordError> {
        // SAFETY: jemalloc takes a size_t here, and checks the size of what it gets.
        Ok(unsafe { raw::write(RESET, self.interval) }?)
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        // Both worked before.
        let _ = set_active(false);
        let _ = self.reset();
    }
}

/// Records what the process allocates within a time. Returns `None` if that is cancelled.
///
/// Where the profiler is active already, since `MALLOC_CONF` said so when the process started, its samples from then on are taken,
/// and it stays active. There may be one recording at a time.
pub(super) fn record(
    length: Duration,
    is_cancelled: impl Fn() -> bool,
) -> Result<Option<HeapProfile>, RecordError> {
    if !profiling::prof::read().unwrap_or(false) {
        return Err(RecordError::NoHeapProfiler);
    }
    let file = NamedTempFile::new().map_err(RecordError::TemporaryFile)?;
    let since_start = is_active()?;
    let sampling = (!since_start).then(Sampling::start).transpose()?;
    if !wait(length, is_cancelled) {
        return Ok(None);
    }
    if sampling.is_some() {
        set_active(false)?;
    }
    write_dump(file.path())?;
    drop(sampling);
    let text = fs::read_to_string(file.path()).map_err(RecordError::HeapDump)?;
    let dump = Dump::parse(&text).ok_or(RecordError::UnknownHeapDump)?;
    Ok(Some(HeapProfile::new(&dump, length, since_start)))
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
