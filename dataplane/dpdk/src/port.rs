//! Ports: opened once for all workers of a group, with a queue pair and a pool of buffers for each.

use std::sync::Arc;

use crate::device::{Inner, PortFacts, PortOptions};
use crate::eal::Eal;
use crate::error::Error;
use crate::queue::QueueSeed;

/// An open port. It is closed once its queues are gone, too, and all buffers that were taken from them.
#[derive(Debug)]
pub struct Port {
    inner: Arc<Inner>,
}

impl Port {
    /// Opens a port. Returns it with the seeds of its queues.
    ///
    /// # Errors
    /// There is no such device, another process has it, a right is missing, or there are too few queues or too little
    /// memory.
    pub fn open(eal: &Eal, options: &PortOptions) -> Result<(Self, Vec<QueueSeed>), Error> {
        let inner = Arc::new(Inner::open(eal.clone(), options)?);
        let queues =
            (0..options.queues).map(|queue| QueueSeed::new(Arc::clone(&inner), queue)).collect();
        Ok((Self { inner }, queues))
    }

    /// Returns facts about the port.
    #[must_use]
    pub fn facts(&self) -> &PortFacts {
        self.inner.facts()
    }

    /// Closes the port once all queues and buffers are gone. Returns the number of buffers that its driver did not return,
    /// without those that it keeps for good ([`PortOptions::kept`]).
    ///
    /// # Errors
    /// Returns the port where a queue or a buffer is in use.
    pub fn close(self) -> Result<u32, Self> {
        let inner = Arc::try_unwrap(self.inner).map_err(|inner| Self { inner })?;
        Ok(inner.close())
    }
}
