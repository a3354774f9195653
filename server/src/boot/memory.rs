//! Measures the memory of the process against its budget.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sluicegate_config::{Config, Limits};
use tikv_jemalloc_ctl::{Access, AsName, arenas, background_thread};

use super::descriptors;
use super::error::BootError;
use crate::observe::memory_budget::MemoryBudget;

/// Time between two measurements.
const PERIOD: Duration = Duration::from_millis(200);
/// Measurements from one return of free pages to the next, while memory is not short but close to the limit.
const RETURN_EVERY: u32 = 5;
/// Part of the machine's memory that the process may hold by default, percent.
const SHARE: u64 = 80;
/// Part of the limit that is promised to the buffers of requests, percent. Blocks that are read ahead, or half sent, come on top. Their
/// accounts are fair to clients; a process that is at its limit refuses all alike.
const BUFFERS: u64 = 50;
/// Part of the limit that caches of files may take, percent. Files that have left them while they are sent may take as much again.
const CACHES: u64 = 12;
/// Part of the limit for responses that are being compressed, percent.
const COMPRESSORS: u64 = 12;
/// Least memory of a worker for responses that are being compressed, bytes: the dearest one fits.
const LEAST_COMPRESSORS: u64 = 3 << 20;
/// Fronts of a worker: HTTP/3, and TCP. Each has buffers and a cache.
const FRONTS: u64 = 2;
/// Mount point of the second version of control groups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Returns the budget for the configured limit: bytes, 0 for none, `None` for a share of what the machine gives.
pub(super) fn budget(configured: Option<u64>) -> MemoryBudget {
    MemoryBudget::new(configured.unwrap_or_else(default_limit))
}

/// What each user of the budget may take at most, whatever is configured, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// Memory of the buffers of an account.
    buffers: u64,
    /// Memory of a cache of files.
    cache: u64,
    /// Memory of a worker's compressors.
    pub(super) compressors: u64,
}

impl Parts {
    /// Divides a budget among the workers of a configuration.
    pub(super) fn of(budget: &MemoryBudget, config: &Config) -> Parts {
        Parts::for_workers(budget.limit(), descriptors::workers(config))
    }

    fn for_workers(limit: u64, workers: u64) -> Parts {
        let part = |percent, users| match limit {
            0 => u64::MAX,
            limit => limit / 100 * percent / (users * workers.max(1)),
        };
        Parts {
            buffers: part(BUFFERS, FRONTS),
            cache: part(CACHES, FRONTS),
            compressors: part(COMPRESSORS, 1).max(LEAST_COMPRESSORS),
        }
    }

    /// Returns the memory of each account of a worker, bytes: one stream has its buffer however little there is.
    pub(super) fn worker_buffer(self, limits: &Limits) -> u64 {
        limits
            .worker_buffer
            .min(self.buffers.max(limits.stream_buffer))
    }

    /// Returns limits whose cache of files is within its part.
    pub(super) fn for_site(self, limits: &Limits) -> Limits {
        Limits {
            file_cache: limits.file_cache.min(self.cache),
            ..limits.clone()
        }
    }
}

/// Warns of keys that `limit` leaves less for.
pub(super) fn advise(config: &Config, limit: u64) {
    if limit == 0 {
        return;
    }
    let parts = Parts::for_workers(limit, descriptors::workers(config));
    let (limits, usual) = (&config.limits, Config::embedded());
    // A key that nobody has set follows the limit silently; buffers are too large for any limit that is set.
    let buffers =
        config.server.memory_limit.is_some() || limits.worker_buffer != usual.limits.worker_buffer;
    let cache = limits.file_cache != usual.limits.file_cache;
    let compress = config.compress.memory != usual.compress.memory;
    let bounded = parts.for_site(limits).file_cache;
    let keys = [
        (
            buffers,
            "limits.worker_buffer",
            limits.worker_buffer,
            parts.worker_buffer(limits),
        ),
        (cache, "limits.file_cache", limits.file_cache, bounded),
        (
            compress,
            "compress.memory",
            config.compress.memory,
            parts.compressors,
        ),
    ];
    for (is_set, key, configured, in_effect) in keys {
        if is_set && in_effect < configured {
            tracing::warn!(
                key,
                configured,
                in_effect,
                memory_limit = limit,
                "server.memory_limit leaves each worker less than a key says: set the key to what is in effect or below, or raise \
                 memory_limit"
            );
        }
    }
}

/// Measures from now on, in a thread of its own. A budget without a limit is not measured.
pub(super) fn watch(budget: &Arc<MemoryBudget>) -> Result<(), BootError> {
    if budget.limit() == 0 {
        return Ok(());
    }
    // The allocator returns freed pages when its threads allocate; idle ones would keep theirs.
    let _ = background_thread::write(true);
    let budget = Arc::clone(budget);
    let watch = move || {
        let mut pause = 0;
        loop {
            if let Some(used) = judged(&budget, &mut pause) {
                measure(&budget, used);
            }
            thread::park_timeout(PERIOD);
        }
    };
    let thread = thread::Builder::new().name("memory".into());
    thread.spawn(watch).map_err(BootError::Thread)?;
    Ok(())
}

/// Returns the memory to judge by, bytes. Pages that hold nothing do not make memory short: close to the limit they are returned
/// to the system first. `pause` is the number of measurements until the next return where it is not urgent.
fn judged(budget: &MemoryBudget, pause: &mut u32) -> Option<u64> {
    let used = held()?;
    *pause = pause.saturating_sub(1);
    let urgent = budget.is_short() || used >= budget.limit();
    if !budget.is_close(used) || !urgent && *pause > 0 {
        return Some(used);
    }
    *pause = RETURN_EVERY;
    return_free_pages();
    held()
}

/// Returns pages that hold nothing to the system at once, not after the allocator's usual time.
fn return_free_pages() {
    let count = arenas::narenas::read().unwrap_or(0);
    for arena in 0..count {
        for pages in ["dirty", "muzzy"] {
            let name = format!("arena.{arena}.{pages}_decay_ms\0");
            let delay = name.as_str().name();
            // A delay of none takes effect at once. An arena that no thread uses has no delay.
            if let Ok(usual) = delay.update(0_isize) {
                let _ = delay.write(usual);
            }
        }
    }
}

fn measure(budget: &MemoryBudget, used: u64) {
    let Some(short) = budget.measured(used) else {
        return;
    };
    let limit = budget.limit();
    if short {
        tracing::warn!(
            used,
            limit,
            "memory is short: new connections and requests are refused until a tenth of server.memory_limit is free"
        );
    } else {
        tracing::info!(used, limit, "memory suffices again");
    }
}

/// Returns the memory that the system cannot take back from the process, bytes: the allocator's, stacks, and buffers of sockets'
/// rings, but no pages of files.
fn held() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    kibibytes(&status, "RssAnon:")
}

fn default_limit() -> u64 {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let machine = kibibytes(&read("/proc/meminfo"), "MemTotal:");
    let group = group_limit(&read("/proc/self/cgroup"), Path::new(CGROUPS));
    let least = machine.into_iter().chain(group).min();
    least.map_or(0, |bytes| bytes / 100 * SHARE)
}

/// Returns the smallest memory limit of the process's control group and those around it, bytes. `groups` is
/// `/proc/self/cgroup`; other hierarchies than the second version's stand in it, too.
fn group_limit(groups: &str, root: &Path) -> Option<u64> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let limit = |folder: &Path| {
        let text = fs::read_to_string(root.join(folder).join("memory.max")).ok()?;
        text.trim().parse().ok()
    };
    Path::new(group).ancestors().filter_map(limit).min()
}

/// Returns the size behind `key` at the start of a line, bytes.
fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_holds_memory_and_may_hold_more() {
        let (held, limit) = (held().unwrap(), budget(None).limit());
        assert!(held > 100_000, "{held}");
        assert!(limit > held, "{limit} for {held}");
    }

    #[test]
    fn boringssl_allocates_from_the_allocator_whose_free_pages_return() {
        const SIZE: usize = 1 << 20;
        let allocated = || tikv_jemalloc_ctl::thread::allocatedp::read().unwrap().get();
        let before = allocated();
        let number = boring::bn::BigNum::from_slice(&[0xff; SIZE]).unwrap();
        assert!(allocated() - before >= SIZE as u64);
        drop(number);
    }

    #[test]
    fn close_to_the_limit_free_pages_return_before_memory_is_judged() {
        const SIZE: usize = 256 << 20;
        const PIECE: usize = 16 << 10;
        let pieces: Vec<Vec<u8>> = (0..SIZE / PIECE).map(|_| vec![1; PIECE]).collect();
        let full = held().unwrap();
        drop(pieces);
        let (near, far) = (budget(Some(full / 20 * 21)), budget(Some(4 * full)));
        // What the other tests take meanwhile is less than half.
        let freed = |budget: &MemoryBudget, pause: &mut u32| {
            judged(budget, pause).unwrap() < full - SIZE as u64 / 2
        };
        assert!(!freed(&far, &mut 0));
        assert!(!freed(&near, &mut 2));
        let mut pause = 1;
        assert!(freed(&near, &mut pause));
        assert_eq!(pause, RETURN_EVERY);
    }

    #[test]
    fn buffers_of_requests_take_half_of_the_limit_at_most() {
        let limits = Limits {
            worker_buffer: 1 << 30,
            ..Config::embedded().limits
        };
        let of = |limit, workers| Parts::for_workers(limit, workers).worker_buffer(&limits);
        assert_eq!(of(600 << 20, 2), (600 << 20) / 100 * 50 / 4);
        assert_eq!(of(64 << 30, 4), 1 << 30);
        assert_eq!(of(0, 64), 1 << 30, "no limit bounds nothing");
        assert_eq!(of(1 << 20, 64), limits.stream_buffer);
    }

    /// Whatever the keys say.
    #[test]
    fn all_that_is_bounded_together_leaves_an_eighth_of_the_limit() {
        let limits = Limits {
            worker_buffer: 1 << 40,
            file_cache: 1 << 40,
            ..Config::embedded().limits
        };
        for (limit, workers) in [(512 << 20, 1), (600 << 20, 2), (64 << 30, 64)] {
            let parts = Parts::for_workers(limit, workers);
            let cache = parts.for_site(&limits).file_cache;
            let fronts = FRONTS * workers;
            let all =
                fronts * (parts.worker_buffer(&limits) + 2 * cache) + workers * parts.compressors;
            assert!(all <= limit / 8 * 7, "{all} of {limit}");
            assert!(all >= limit / 5 * 4, "{all} of {limit}");
        }
        let unlimited = Parts::for_workers(0, 2);
        assert_eq!(unlimited.for_site(&limits).file_cache, 1 << 40);
        assert_eq!(unlimited.compressors, u64::MAX);
    }

    #[test]
    fn a_configured_limit_is_taken_as_it_is() {
        assert_eq!(budget(Some(12_345)).limit(), 12_345);
        assert_eq!(budget(Some(0)).limit(), 0);
    }

    #[test]
    fn the_smallest_limit_of_the_groups_around_the_process_counts() {
        let root = tempfile::tempdir().unwrap();
        let set = |group: &str, limit: &str| {
            fs::create_dir_all(root.path().join(group)).unwrap();
            fs::write(root.path().join(group).join("memory.max"), limit).unwrap();
        };
        set("a", "5000\n");
        set("a/b", "max\n");
        set("a/b/c", "7000\n");
        let limit = |groups: &str| group_limit(groups, root.path());
        assert_eq!(limit("0::/a/b/c\n"), Some(5000));
        assert_eq!(limit("12:memory:/x\n0::/a/b\n"), Some(5000));
        set("a/b/c", "4000\n");
        assert_eq!(limit("0::/a/b/c\n"), Some(4000));
        assert_eq!(limit("0::/elsewhere\n"), None);
        assert_eq!(limit("0::/\n"), None);
        assert_eq!(limit("12:memory:/a\n"), None);
        assert_eq!(limit(""), None);
    }
}
