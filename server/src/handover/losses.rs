//! Datagrams on their way to another process that do not arrive.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_base::observe::metrics::metrics;

metrics! {
    /// Datagrams that were handed over and did not arrive, since the start.
    #[derive(Debug, Default)]
    pub struct LossCounters {
        /// Datagrams that found no room, or no worker or listener.
        pub dropped: AtomicU64 = counter(
            "sluicegate_datagrams_handover_lost_total", reason = "dropped";
            "Datagrams that were handed over and did not arrive, by reason: there was no room, or no such worker or listener (dropped), or one of the processes ended (late)."
        ),
        /// Datagrams that were on their way when one of the processes ended.
        pub late: AtomicU64 = also(reason = "late"),
    }
}

/// Counts the datagrams that are lost on the way to or from other processes, in threads that carry them.
#[derive(Debug, Default)]
pub struct Losses {
    counters: LossCounters,
    carrying: Mutex<Carrying>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Carrying {
    /// Number of threads that carry datagrams.
    threads: usize,
    /// Streams that are not read any more.
    kept: Vec<UnixStream>,
}

/// Says that a thread carries datagrams.
pub(super) struct Running(Arc<Losses>);

impl Losses {
    /// Returns the totals.
    pub(crate) fn counters(&self) -> &LossCounters {
        &self.counters
    }

    /// Counts a datagram for which there is no room, or no such worker or listener.
    pub(super) fn on_drop(&self) {
        self.counters.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts datagrams of a process that has ended, or to it.
    pub(super) fn on_late(&self, datagrams: usize) {
        self.counters.late.fetch_add(datagrams as u64, Ordering::Relaxed);
    }

    /// Notes that a thread carries datagrams, until the result is dropped.
    pub(super) fn run(self: &Arc<Self>) -> Running {
        let mut carrying = self.carrying();
        // Their processes have ended: none begins while this one ends.
        carrying.kept.clear();
        carrying.threads += 1;
        Running(Arc::clone(self))
    }

    /// Keeps a stream open whose end would say that this process has ended, which has counters to leave.
    pub(super) fn keep(&self, stream: UnixStream) {
        self.carrying().kept.push(stream);
    }

    /// Waits until no thread carries datagrams, up to `limit`. The workers have stopped, so that these threads end.
    pub(crate) fn settle(&self, limit: Duration) {
        let carrying = self.carrying();
        drop(self.changed.wait_timeout_while(carrying, limit, |carrying| carrying.threads > 0));
    }

    fn carrying(&self) -> MutexGuard<'_, Carrying> {
        self.carrying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.carrying().threads -= 1;
        self.0.changed.notify_all();
    }
}
