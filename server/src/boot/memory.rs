//! Measures the memory of the process against its budget.

pub(super) mod parts;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sluicegate_base::observe::memory_budget::MemoryBudget;
use tikv_jemalloc_ctl::{Access, AsName, arenas, background_thread};

use super::error::BootError;

/// Time between two measurements.
const PERIOD: Duration = Duration::from_millis(200);
/// Measurements from one return of free pages to the next, while memory is not short but close to the limit.
const RETURN_EVERY: u32 = 5;
/// Part of the machine's memory that the process may hold by default, percent.
const SHARE: u64 = 80;
/// Mount point of the second version of control groups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Returns the budget for the configured limit: bytes, 0 for none, `None` for a share of what the machine gives.
pub(super) fn budget(configured: Option<u64>) -> MemoryBudget {
    MemoryBudget::new(configured.unwrap_or_else(default_limit))
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
