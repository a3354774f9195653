//! Questions and orders to all workers.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::worker::{Command, WorkerHandle};

/// Time for the replies of all workers.
const LIMIT: Duration = Duration::from_secs(1);

/// Returns whether a reply that was late is still to come.
type Late = Box<dyn FnMut() -> bool + Send>;

/// Asks all workers for replies, one question at a time, because each may look at every connection.
#[derive(Default)]
pub struct WorkerQueries {
    workers: OnceLock<Vec<WorkerHandle>>,
    /// Replies that were late, by worker: one that hangs is asked once.
    late: Mutex<HashMap<usize, Late>>,
}

impl std::fmt::Debug for WorkerQueries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerQueries").field("workers", &self.workers).finish_non_exhaustive()
    }
}

/// Replies of workers.
#[derive(Debug)]
pub(super) struct Replies<T> {
    /// Replies with the names of their workers.
    pub(super) received: Vec<(String, T)>,
    /// Workers that did not reply in time.
    pub(super) silent: Vec<String>,
}

impl WorkerQueries {
    /// Sets the workers to ask. Only the first call has an effect.
    pub fn watch(&self, workers: Vec<WorkerHandle>) {
        let _ = self.workers.set(workers);
    }

    /// Sends every worker a command with the sender of its reply, and waits for the replies.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        command: impl Fn(oneshot::Sender<T>) -> Command,
    ) -> Replies<T> {
        let mut replies = Replies { received: Vec::new(), silent: Vec::new() };
        let mut late = self.late.lock().await;
        let mut asked = Vec::new();
        for (number, worker) in self.workers.get().into_iter().flatten().enumerate() {
            let name = format!("{}/{}", worker.group, worker.index);
            if let Some(is_pending) = late.get_mut(&number) {
                if is_pending() {
                    replies.silent.push(name);
                    continue;
                }
                late.remove(&number);
            }
            let (reply, receiver) = oneshot::channel();
            // A worker that has ended has no connections.
            if worker.mailbox.send(command(reply)) {
                asked.push((number, name, receiver));
            }
        }
        let deadline = Instant::now() + LIMIT;
        for (number, name, mut receiver) in asked {
            match timeout_at(deadline, &mut receiver).await {
                Ok(Ok(reply)) => replies.received.push((name, reply)),
                Ok(Err(_)) => {}
                Err(_) => {
                    replies.silent.push(name);
                    let is_pending =
                        move || matches!(receiver.try_recv(), Err(TryRecvError::Empty));
                    late.insert(number, Box::new(is_pending));
                }
            }
        }
        replies
    }
}
