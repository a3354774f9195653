//! Measures the memory of the process against its budget.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::error::BootError;
use crate::observe::memory_budget::MemoryBudget;

/// Time between two measurements.
const PERIOD: Duration = Duration::from_millis(200);
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
    let budget = Arc::clone(budget);
    let watch = move || {
        loop {
            if let Some(used) = held() {
                measure(&budget, used);
            }
            thread::park_timeout(PERIOD);
        }
    };
    let thread = thread::Builder::new().name("memory".into());
    thread.spawn(watch).map_err(BootError::Thread)?;
    Ok(())
}

fn measure(budget: &MemoryBudget, used: u64) {
    let Some(short) = budget.measured(used) else {
        return;
    };
    let limit = budget.limit();
    if short {
        // The allocator returns freed pages when its threads allocate; idle ones would keep theirs.
        let _ = tikv_jemalloc_ctl::background_thread::write(true);
        tracing::warn!(
            used,
            limit,
            "memory is short: new connections and requests are refused until a tenth of server.memory_limit is free"
        );
    } else {
        tracing::info!(used, limit, "memory suffices again");
    }
}

/// Returns the memory that the system cannot take back from the process, bytes: both its allocators', stacks, and buffers
/// of sockets' rings, but no pages of files.
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
