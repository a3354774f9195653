//! Questions and orders to all workers, and to their fronts over TCP.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::tcp::FrontCommand;
use crate::worker::{Command, WorkerHandle};

/// Time for the replies of all workers.
const LIMIT: Duration = Duration::from_secs(1);

/// Returns whether a reply that was late is still to come.
type Late = Box<dyn FnMut() -> bool + Send>;

/// Asks all workers for replies, one question at a time, because each may look at every connection.
#[derive(Default)]
pub struct WorkerQueries {
    workers: OnceLock<Vec<WorkerHandle>>,
    /// Replies that were late, by worker and part of it: one that hangs is asked once.
    late: Mutex<HashMap<(usize, Part), Late>>,
}

/// Part of a worker that replies by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// Its own thread, which has the connections of QUIC.
    Worker,
    /// The front over TCP on its origin thread.
    Front,
}

impl Part {
    /// Returns its name where it does not reply.
    fn name(self, worker: &WorkerHandle) -> String {
        let of = match self {
            Part::Worker => "",
            Part::Front => " (TCP)",
        };
        format!("{}/{}{of}", worker.group, worker.index)
    }
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
        self.ask_parts(&[Part::Worker], |worker, _, reply| worker.mailbox.send(command(reply)))
            .await
    }

    /// Does the same with their fronts over TCP, too, which get commands of their own.
    pub(super) async fn ask_with_fronts<T: Send + 'static>(
        &self,
        command: impl Fn(oneshot::Sender<T>) -> Command,
        of_front: impl Fn(oneshot::Sender<T>) -> FrontCommand,
    ) -> Replies<T> {
        self.ask_parts(&[Part::Worker, Part::Front], |worker, part, reply| match part {
            Part::Worker => worker.mailbox.send(command(reply)),
            Part::Front => worker.front.send(of_front(reply)).is_ok(),
        })
        .await
    }

    async fn ask_parts<T: Send + 'static>(
        &self,
        parts: &[Part],
        send: impl Fn(&WorkerHandle, Part, oneshot::Sender<T>) -> bool,
    ) -> Replies<T> {
        let mut replies = Replies { received: Vec::new(), silent: Vec::new() };
        let mut late = self.late.lock().await;
        let mut asked = Vec::new();
        let workers = self.workers.get().into_iter().flatten().enumerate();
        for (number, worker, part) in workers
            .flat_map(|(number, worker)| parts.iter().map(move |part| (number, worker, *part)))
        {
            let name = part.name(worker);
            if let Some(is_pending) = late.get_mut(&(number, part)) {
                if is_pending() {
                    replies.silent.push(name);
                    continue;
                }
                late.remove(&(number, part));
            }
            let (reply, receiver) = oneshot::channel();
            // What has ended has no connections.
            if send(worker, part, reply) {
                asked.push(((number, part), worker, receiver));
            }
        }
        let deadline = Instant::now() + LIMIT;
        for (key, worker, mut receiver) in asked {
            match timeout_at(deadline, &mut receiver).await {
                Ok(Ok(reply)) => replies.received.push((Part::Worker.name(worker), reply)),
                Ok(Err(_)) => {}
                Err(_) => {
                    replies.silent.push(key.1.name(worker));
                    let is_pending =
                        move || matches!(receiver.try_recv(), Err(TryRecvError::Empty));
                    late.insert(key, Box::new(is_pending));
                }
            }
        }
        replies
    }
}
