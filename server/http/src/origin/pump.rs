//! Passes messages between the rings and the tasks.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, spawn_local, yield_now};
use tokio::time::timeout;

use crate::exchange::handler::{ExchangeHandle, FrontQueue, Incoming};
use crate::exchange::message::{Envelope, ToFront, ToHandler};
use crate::exchange::ring::WorkerRing;
use crate::id_map::IdMap;

/// Largest number of messages taken before tasks run.
const BUDGET: usize = 256;

/// Exchanges that have not ended.
type Running = Rc<RefCell<IdMap<Task>>>;

struct Task {
    handle: ExchangeHandle,
    abort: AbortHandle,
}

/// Runs a task for each exchange, and executes commands, until the worker is gone.
///
/// A command that was sent before a request is executed before the request's task runs.
pub(super) async fn run<C, H, F>(
    mut worker_ring: WorkerRing,
    mut commands: UnboundedReceiver<C>,
    execute: impl Fn(C),
    handler: H,
) where
    H: Fn(Incoming) -> F + Clone + 'static,
    F: Future<Output = ()>,
{
    let front_queue = Rc::new(FrontQueue::default());
    let running = Running::default();
    loop {
        let mut took = false;
        for _ in 0..BUDGET {
            let Some(envelope) = worker_ring.take() else {
                break;
            };
            took = true;
            take(envelope, &handler, &front_queue, &running);
        }
        // The requests that were just taken may depend on these commands. Their tasks run only when this one waits.
        while let Ok(command) = commands.try_recv() {
            execute(command);
        }
        let (mut gave, mut full) = (false, false);
        while let Some(envelope) = front_queue.pop() {
            match worker_ring.give(envelope) {
                Ok(()) => gave = true,
                Err(envelope) => {
                    front_queue.put_back(envelope);
                    full = true;
                    break;
                }
            }
        }
        worker_ring.wake(gave);
        if worker_ring.is_abandoned() {
            return;
        }
        if took {
            // The messages that the tasks now produce leave together.
            yield_now().await;
            continue;
        }
        tokio::select! {
            () = worker_ring.woken() => {}
            () = front_queue.filled(), if !full => {}
            Some(command) = commands.recv() => execute(command),
        }
    }
}

fn take<H, F>(
    envelope: Envelope<ToHandler>,
    handler: &H,
    front_queue: &Rc<FrontQueue>,
    running: &Running,
) where
    H: Fn(Incoming) -> F + Clone + 'static,
    F: Future<Output = ()>,
{
    let Envelope { exchange, message } = envelope;
    match message {
        ToHandler::Open { request, credit } => {
            let limit = request.timeout;
            let (incoming, handle) =
                Incoming::new(exchange, request, credit, Rc::clone(front_queue));
            let closing = Closing {
                exchange,
                front_queue: Rc::clone(front_queue),
                running: Rc::clone(running),
            };
            let handler = handler.clone();
            let task = spawn_local(async move {
                let closing = closing;
                let mut work = pin!(handler(incoming));
                match limit {
                    None => work.await,
                    Some(limit) => {
                        let is_over = timeout(limit, work.as_mut()).await.is_err();
                        if is_over && closing.is_tunnel_open() {
                            work.await;
                        } else if is_over {
                            closing.set_abort_status(504);
                        }
                    }
                }
            });
            let abort = task.abort_handle();
            running.borrow_mut().insert(exchange, Task { handle, abort });
        }
        ToHandler::Cancel => {
            let task = running.borrow_mut().remove(&exchange);
            if let Some(task) = task {
                task.abort.abort();
            }
        }
        message => {
            if let Some(task) = running.borrow().get(&exchange) {
                task.handle.deliver(message);
            }
        }
    }
}

/// Closes an exchange, however its task ends.
struct Closing {
    exchange: u64,
    front_queue: Rc<FrontQueue>,
    running: Running,
}

impl Closing {
    fn is_tunnel_open(&self) -> bool {
        let running = self.running.borrow();
        let task = running.get(&self.exchange);
        task.is_some_and(|task| task.handle.is_tunnel_open())
    }

    fn set_abort_status(&self, status: u16) {
        if let Some(task) = self.running.borrow().get(&self.exchange) {
            task.handle.set_abort_status(status);
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let task = self.running.borrow_mut().remove(&self.exchange);
        drop(task);
        self.front_queue.push(self.exchange, ToFront::Closed);
    }
}

#[cfg(test)]
mod tests;
