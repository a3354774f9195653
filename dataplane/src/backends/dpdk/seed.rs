//! A worker's share of a port.

use std::sync::Arc;

use sluicegate_dpdk::QueueSeed;

use super::driver::{Dpdk, NAME};
use super::shared::Shared;
use crate::error::OpenError;

/// One worker's queue of a port.
#[derive(Debug)]
pub(crate) struct DpdkSeed {
    queue: QueueSeed,
    shared: Arc<Shared>,
    /// Index of the worker.
    index: usize,
}

impl DpdkSeed {
    pub(super) fn new(queue: QueueSeed, shared: Arc<Shared>, index: usize) -> Self {
        Self { queue, shared, index }
    }

    /// Makes the driver, on the thread that will use it.
    pub(crate) fn open(self) -> Result<Dpdk, OpenError> {
        let failed =
            |step, source| OpenError::new(NAME, step, source, "use fewer workers, 100 at most");
        let queue = self.queue.open();
        let queue = queue.map_err(|e| failed("register the thread", std::io::Error::other(e)))?;
        Dpdk::new(queue, self.shared, self.index).map_err(|e| failed("eventfd", e))
    }
}
