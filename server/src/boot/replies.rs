//! Replies of workers that change their listeners.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use sluicegate_base::clock;
use sluicegate_dataplane::{ListenerId, OpenError, Seed};

use crate::worker::{Command, WorkerHandle};

/// Outstanding replies of workers. A worker that has ended owes none.
#[derive(Debug)]
pub(super) struct Replies {
    receiver: Receiver<Result<(), OpenError>>,
    /// First error of those that have come.
    failed: Option<OpenError>,
}

impl Replies {
    /// Has each worker serve the listeners of its seed, too, and no longer those of `removed`.
    pub(super) fn rebind<'a>(
        workers: impl Iterator<Item = (&'a WorkerHandle, Seed)>,
        removed: &[ListenerId],
    ) -> Replies {
        let (sender, receiver) = channel();
        for (worker, seed) in workers {
            let command = Command::Rebind(Box::new(seed), removed.to_vec(), sender.clone());
            worker.mailbox.send(command);
        }
        Replies { receiver, failed: None }
    }

    /// Waits until all workers have replied, and returns the first error; `None` if some have not at `end`.
    pub(super) fn wait(&mut self, end: Instant) -> Option<Result<(), OpenError>> {
        loop {
            let left = end.saturating_duration_since(clock::now());
            match self.receiver.recv_timeout(left) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    self.failed.get_or_insert(error);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Some(self.failed.take().map_or(Ok(()), Err));
                }
                Err(RecvTimeoutError::Timeout) => return None,
            }
        }
    }

    /// Returns the first error once all workers have replied; `None` before.
    pub(super) fn take(&mut self) -> Option<Result<(), OpenError>> {
        self.wait(clock::now())
    }
}
