//! Figures of the process from the system.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use sluicegate_base::observe::metrics::metrics;

/// Number of clock ticks in a second, in every Linux ABI that the server runs on.
const TICKS_PER_SECOND: f64 = 100.0;

metrics! {
    /// Figures of the process, under the names of Prometheus' own libraries; `None` where the system does not have one.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub(super) struct Process {
        /// Open file descriptors.
        open_fds: Option<u64> = gauge("process_open_fds"),
        /// File descriptors that may be open.
        max_fds: Option<u64> = gauge("process_max_fds"),
        /// Threads.
        threads: Option<u64> = gauge("process_threads"),
        /// Resident memory size, bytes.
        resident_bytes: Option<u64> = gauge("process_resident_memory_bytes"),
        /// Virtual memory size, bytes.
        virtual_bytes: Option<u64> = gauge("process_virtual_memory_bytes"),
        /// User and system CPU time, seconds.
        cpu_seconds: Option<f64> = counter("process_cpu_seconds_total"),
    }
}

impl Process {
    /// Reads `/proc/self`.
    pub(super) fn read() -> Process {
        let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).ok();
        let status = read("status").unwrap_or_default();
        let kib = |key| number_after(&status, key).map(|kib| kib * 1024);
        Process {
            // One of them is the directory being read.
            open_fds: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|all| (all.count() as u64).saturating_sub(1)),
            max_fds: read("limits").and_then(|limits| number_after(&limits, "Max open files")),
            threads: number_after(&status, "Threads:"),
            resident_bytes: kib("VmRSS:"),
            virtual_bytes: kib("VmSize:"),
            cpu_seconds: read("stat").and_then(|stat| cpu_seconds(&stat)),
        }
    }
}

/// Returns the number behind `key` at the start of a line; `None` for a word.
fn number_after(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Returns user and system time of `/proc/<pid>/stat`. The name in it may hold anything; the last parenthesis ends it.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

metrics! {
    /// Start and age of the process.
    #[derive(Clone, Debug)]
    pub(super) struct Age {
        /// Start time of the process, seconds since 1970.
        pub(super) started: f64 = gauge("process_start_time_seconds"),
        /// Time since the start, seconds.
        pub(super) uptime: f64 = gauge("sluicegate_uptime_seconds"),
        /// 1, with the build's version as a label.
        pub(super) build: BTreeMap<&'static str, u64> = gauge("sluicegate_build_info" by "version"),
    }
}

impl Age {
    /// Returns the age of a process that started at `started`, since 1970, and serves since `uptime`.
    pub(super) fn new(started: Duration, uptime: Duration) -> Age {
        Age {
            started: started.as_secs_f64(),
            uptime: uptime.as_secs_f64(),
            build: BTreeMap::from([(env!("CARGO_PKG_VERSION"), 1)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_all_figures() {
        let _open = fs::File::open("/proc/self/status").unwrap();
        let process = Process::read();
        assert!(process.open_fds > Some(3), "{process:?}");
        assert!(process.max_fds >= process.open_fds && process.threads > Some(0));
        assert!(process.resident_bytes > Some(1 << 20));
        assert!(process.virtual_bytes >= process.resident_bytes);
        assert!(process.cpu_seconds.is_some());
    }

    #[test]
    fn a_name_with_parentheses_hides_no_time() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 9 9";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("42 (short) S 1"), None);
        assert_eq!(number_after("Max open files   unlimited", "Max open files"), None);
    }
}
