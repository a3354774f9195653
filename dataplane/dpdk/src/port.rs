//! Ports: opened once for all workers of a group, with a queue pair and a pool of buffers for each.

use std::sync::Arc;

use crate::device::{Inner, PortFacts, PortOptions};
use crate::eal::Eal;
use crate::error::Error;
use crate::queue::Queue;

/// An open port. It is closed once its queues are gone, too.
#[derive(Debug)]
pub struct Port {
    inner: Arc<Inner>,
}

impl Port {
    /// Opens a port. Returns it with its queues.
    ///
    /// # Errors
    /// There is no such device, another process has it, a right is missing, or there are too few queues or too little
    /// memory.
    pub fn open(eal: Eal, options: &PortOptions) -> Result<(Self, Vec<Queue>), Error> {
        let (inner, per_device) = Inner::open(eal, options)?;
        let inner = Arc::new(inner);
        let queues = (0..options.queues)
            .map(|queue| Queue::new(Arc::clone(&inner), queue, per_device))
            .collect();
        Ok((Self { inner }, queues))
    }

    /// Returns facts about the port.
    #[must_use]
    pub fn facts(&self) -> &PortFacts {
        self.inner.facts()
    }

    /// Closes the port once all queues are gone. Returns the number of buffers that did not come back, or the port where it
    /// is in use.
    ///
    /// # Errors
    /// A queue is in use.
    pub fn close(self) -> Result<u32, Self> {
        let inner = Arc::try_unwrap(self.inner).map_err(|inner| Self { inner })?;
        Ok(inner.close())
    }
}
