//! Reports of a worker to the main thread.

use sluicegate_dataplane::Features;

use super::stats::WorkerStats;

/// A change in a worker's life.
#[derive(Debug)]
pub enum WorkerReport {
    /// The worker serves.
    Ready {
        /// Name of the worker group.
        group: String,
        /// Index within the group.
        index: u8,
        /// Core that the thread is pinned to.
        core: usize,
        /// Backend that was opened.
        backend: &'static str,
        /// Offloads and modes that the driver uses.
        features: Features,
        /// Whether the worker polls before it sleeps.
        spin: &'static str,
        /// Error of the preferred backend, if it could not be opened.
        fallback: Option<String>,
    },
    /// The worker could not start.
    Failed(String),
    /// The worker stopped, with its last figures.
    Stopped {
        /// Name of the worker group.
        group: String,
        /// Index within the group.
        index: u8,
        /// Last figures of the worker.
        stats: Box<WorkerStats>,
    },
}
