//! A worker's share of a port.

use std::sync::Arc;

use sluicegate_dpdk::{Queue, Registered};

use super::driver::{Dpdk, NAME};
use super::shared::Shared;
use crate::error::OpenError;

/// One worker's queue of a port.
#[derive(Debug)]
pub(crate) struct DpdkSeed {
    queue: Queue,
    shared: Arc<Shared>,
    /// Index of the worker.
    index: usize,
}

impl DpdkSeed {
    pub(super) fn new(queue: Queue, shared: Arc<Shared>, index: usize) -> Self {
        Self {
            queue,
            shared,
            index,
        }
    }

    /// Makes the driver, on the thread that will use it.
    pub(crate) fn open(self) -> Result<Dpdk, OpenError> {
        let failed =
            |step, source| OpenError::new(NAME, step, source, "use fewer workers, 100 at most");
        let registered = Registered::thread(self.queue.eal());
        let registered =
            registered.map_err(|e| failed("register the thread", std::io::Error::other(e)))?;
        Dpdk::new(self.queue, registered, self.shared, self.index).map_err(|e| failed("eventfd", e))
    }
}
