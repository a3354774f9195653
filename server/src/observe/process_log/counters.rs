//! Counters of the process's log.

use std::sync::atomic::AtomicU64;

use crate::observe::metrics::metrics;

metrics! {
    /// Messages since the start.
    #[derive(Debug, Default)]
    pub struct LogCounters {
        /// Messages written to the process's log.
        pub records_written: AtomicU64 = counter("sluicegate_log_records_written_total"),
        /// Messages dropped because too many waited for a reader of the log.
        pub records_dropped_queue: AtomicU64 = counter(
            "sluicegate_log_records_dropped_total", reason = "queue";
            "Messages of the process's log that were dropped before they were written, by reason."
        ),
        /// Messages dropped because standard error took none.
        pub records_dropped_disk: AtomicU64 = also(reason = "disk"),
        /// Messages left out because there were too many of their kind.
        pub records_dropped_rate: AtomicU64 = also(reason = "rate"),
    }
}
