//! State that workers and the writer thread share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::QlogCounters;

/// Counters and limits that workers and the writer thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) counters: Arc<QlogCounters>,
    pub(super) max_trace_bytes: u64,
    pub(super) max_open: usize,
    pub(super) open: AtomicUsize,
    pub(super) idle_epoch: AtomicU64,
}
