//! What the system says of the process.

use std::fs;
use std::time::Duration;

use crate::observe::metrics::{Page, Show};

/// Units of processor time in a second, in every Linux ABI that the server runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Figures of the process; `None` where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Process {
    open_fds: Option<u64>,
    max_fds: Option<u64>,
    threads: Option<u64>,
    resident_bytes: Option<u64>,
    virtual_bytes: Option<u64>,
    cpu_seconds: Option<f64>,
}

impl Process {
    /// Reads `/proc/self`.
    pub(super) fn read() -> Process {
        let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).ok();
        let status = read("status").unwrap_or_default();
        let kib = |key| number_after(&status, key).map(|kib| kib * 1024);
        Process {
            // One of them is the folder that is being read.
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

/// The number behind `key` at the start of a line; none for a word.
fn number_after(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// User and system time of `/proc/<pid>/stat`. The name in it may hold anything; the last parenthesis ends it.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

impl Show for Process {
    /// Names are those that Prometheus' own libraries use.
    fn show(&self, page: &mut Page) {
        let Process {
            open_fds,
            max_fds,
            threads,
            resident_bytes,
            virtual_bytes,
            cpu_seconds,
        } = *self;
        for (name, help, value) in [
            ("process_open_fds", "Open file descriptors.", open_fds),
            (
                "process_max_fds",
                "File descriptors that may be open.",
                max_fds,
            ),
            ("process_threads", "Threads.", threads),
            (
                "process_resident_memory_bytes",
                "Physical memory of the process.",
                resident_bytes,
            ),
            (
                "process_virtual_memory_bytes",
                "Address space of the process.",
                virtual_bytes,
            ),
        ] {
            if let Some(value) = value {
                page.gauge(name, help, value);
            }
        }
        if let Some(value) = cpu_seconds {
            page.counter(
                "process_cpu_seconds_total",
                "Processor time of the process, user and system.",
                value,
            );
        }
    }
}

/// When the process began to serve, and since when it did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Age {
    /// Time since 1970 of the start.
    pub(super) started: Duration,
    /// Since then.
    pub(super) uptime: Duration,
}

impl Show for Age {
    fn show(&self, page: &mut Page) {
        let Age { started, uptime } = self;
        page.gauge(
            "process_start_time_seconds",
            "Time of the start, in seconds since 1970.",
            started.as_secs_f64(),
        );
        page.gauge(
            "sluicegate_uptime_seconds",
            "Time since the start.",
            uptime.as_secs_f64(),
        );
        let version = env!("CARGO_PKG_VERSION");
        page.gauges("sluicegate_build_info", "Always 1; what was built.")
            .sample(&[("version", version)], 1);
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
        assert_eq!(
            number_after("Max open files   unlimited", "Max open files"),
            None
        );
    }
}
