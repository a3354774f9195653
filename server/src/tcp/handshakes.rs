//! Share of a front's time that TLS handshakes get.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;

/// Steps of handshakes that may run before every other task of the thread that is ready. One with a signature by RSA takes more than
/// half a millisecond.
const STEPS: usize = 8;

/// Pace of the TLS handshakes of a front. Connections that begin all at once would otherwise keep the requests of others waiting for
/// all their signatures.
#[derive(Debug)]
pub(super) struct HandshakePace {
    steps: Semaphore,
    used_up: Notify,
}

impl HandshakePace {
    pub(super) fn new() -> HandshakePace {
        HandshakePace {
            steps: Semaphore::new(STEPS),
            used_up: Notify::new(),
        }
    }

    /// Runs a handshake, each step of it when its turn has come.
    pub(super) async fn run<T>(&self, handshake: impl Future<Output = T>) -> T {
        let mut handshake = pin!(handshake);
        loop {
            self.step().await;
            let polled = poll_fn(|cx| Poll::Ready(handshake.as_mut().poll(cx))).await;
            if let Poll::Ready(result) = polled {
                return result;
            }
            // The handshake wakes the task when it can go on.
            let mut is_woken = false;
            poll_fn(|_| {
                if std::mem::replace(&mut is_woken, true) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        }
    }

    /// Waits for the turn of a step, in the order of arrival.
    async fn step(&self) {
        // Nobody closes the semaphore.
        if let Ok(step) = self.steps.acquire().await {
            step.forget();
        }
        if self.steps.available_permits() == 0 {
            self.used_up.notify_one();
        }
    }

    /// Allows further steps once every other task that is ready has run; runs until it is dropped.
    pub(super) async fn keep(&self) {
        loop {
            self.used_up.notified().await;
            yield_now().await;
            let left = self.steps.available_permits();
            self.steps.add_permits(STEPS.saturating_sub(left));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    const HANDSHAKES: usize = 100;

    #[tokio::test]
    async fn other_tasks_run_between_the_steps_of_many_handshakes() {
        let local = LocalSet::new();
        let run = local.run_until(async {
            let pace = Rc::new(HandshakePace::new());
            let keeper = Rc::clone(&pace);
            let keeper = spawn_local(async move { keeper.keep().await });
            let (steps, order) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
            let tasks: Vec<_> = (0..HANDSHAKES)
                .map(|number| {
                    let (pace, steps) = (Rc::clone(&pace), Rc::clone(&steps));
                    let order = Rc::clone(&order);
                    spawn_local(async move {
                        let mut is_second = false;
                        let handshake = poll_fn(|cx| {
                            steps.set(steps.get() + 1);
                            if std::mem::replace(&mut is_second, true) {
                                return Poll::Ready(());
                            }
                            cx.waker().wake_by_ref();
                            Poll::Pending
                        });
                        pace.run(handshake).await;
                        order.borrow_mut().push(number);
                    })
                })
                .collect();
            let mut before = 0;
            while steps.get() < 2 * HANDSHAKES {
                yield_now().await;
                let more = steps.get() - std::mem::replace(&mut before, steps.get());
                assert!(more <= STEPS, "{more} steps at once");
            }
            for task in tasks {
                task.await.unwrap();
            }
            keeper.abort();
            let order = order.take();
            assert!(order.is_sorted(), "{order:?}");
        });
        run.await;
    }
}
