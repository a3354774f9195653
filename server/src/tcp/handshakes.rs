//! Share of a front's time that TLS handshakes get, and their order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;

/// Steps of handshakes that may run before every other task of the thread that is ready. One with a signature by RSA takes more than
/// half a millisecond.
const STEPS: usize = 8;
/// The same where the other tasks take as long.
const MOST_STEPS: usize = 128;
/// Handshakes of which not even the first step has run. With so many, the front accepts no further connections for TLS.
const MOST_NEW: usize = 128;

/// Pace of the TLS handshakes of a front. Connections that begin all at once would otherwise keep the requests of others waiting for
/// all their signatures.
///
/// Handshakes to which the server has responded go first: what waits behind others is clients that have cost nothing yet. When too
/// many of them wait, further ones stay in the kernel's queue.
#[derive(Debug)]
pub(super) struct HandshakePace {
    queue: RefCell<Queue>,
    used_up: Notify,
    room: Notify,
    /// Time that steps have taken.
    spent: Cell<Duration>,
    /// Mean time that a step takes.
    mean: Cell<Duration>,
    clock: fn() -> Instant,
}

/// Steps that wait for their turn, each with the sender that lets it go on.
#[derive(Debug, Default)]
struct Queue {
    /// Steps that may run at once.
    left: usize,
    round: Round,
    /// Steps that the round admitted and has no time for, and whether the server had responded.
    postponed: VecDeque<(bool, oneshot::Sender<()>)>,
    /// Steps of handshakes to which the server has responded.
    begun: VecDeque<oneshot::Sender<()>>,
    new: VecDeque<oneshot::Sender<()>>,
}

/// Limits of the steps that run before all other tasks have run again.
#[derive(Debug, Default)]
struct Round {
    /// Steps that have begun.
    steps: usize,
    /// Total of the time that steps have taken after which only [`STEPS`] may begin.
    end: Duration,
}

impl HandshakePace {
    pub(super) fn new(clock: fn() -> Instant) -> HandshakePace {
        HandshakePace {
            queue: RefCell::new(Queue { left: STEPS, ..Queue::default() }),
            used_up: Notify::new(),
            room: Notify::new(),
            spent: Cell::default(),
            mean: Cell::default(),
            clock,
        }
    }

    /// Runs a handshake, each step of it when its turn has come. `is_begun` says whether the server has responded to it.
    pub(super) async fn run<T>(
        &self,
        handshake: impl Future<Output = T>,
        is_begun: impl Fn() -> bool,
    ) -> T {
        let mut handshake = pin!(handshake);
        loop {
            self.step(is_begun()).await;
            let start = (self.clock)();
            let polled = poll_fn(|cx| Poll::Ready(handshake.as_mut().poll(cx))).await;
            self.note((self.clock)() - start);
            if let Poll::Ready(result) = polled {
                return result;
            }
            // The handshake wakes the task when it can go on.
            let mut is_woken = false;
            poll_fn(|_| {
                if std::mem::replace(&mut is_woken, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }

    /// Waits until another connection may be accepted.
    pub(super) async fn room(&self) {
        while self.queue.borrow().new.len() >= MOST_NEW {
            self.room.notified().await;
        }
    }

    /// Returns the number of steps that wait for their turn.
    pub(super) fn waiting(&self) -> u64 {
        let queue = self.queue.borrow();
        (queue.postponed.len() + queue.begun.len() + queue.new.len()) as u64
    }

    /// Waits for the turn of a step.
    async fn step(&self, is_begun: bool) {
        let mut turn = self.queue.borrow_mut().enter(is_begun);
        loop {
            self.notice_use();
            if let Some(turn) = turn {
                // Nobody drops the sender of one that waits.
                let _ = turn.await;
            }
            turn = self.queue.borrow_mut().begin(is_begun, self.spent.get());
            if turn.is_none() {
                return;
            }
        }
    }

    /// Allows further steps once every other task that is ready has run; runs until it is dropped.
    pub(super) async fn keep(&self) {
        loop {
            self.used_up.notified().await;
            let (start, spent) = ((self.clock)(), self.spent.get());
            yield_now().await;
            let others = ((self.clock)() - start).saturating_sub(self.spent.get() - spent);
            let steps = steps(others, self.mean.get());
            let mut queue = self.queue.borrow_mut();
            queue.round = Round { steps: 0, end: self.spent.get() + others };
            queue.admit(steps);
            drop(queue);
            self.room.notify_waiters();
            self.notice_use();
        }
    }

    fn notice_use(&self) {
        if self.queue.borrow().left == 0 {
            self.used_up.notify_one();
        }
    }

    /// Notes the time that a step has taken.
    fn note(&self, time: Duration) {
        self.spent.set(self.spent.get() + time);
        self.mean.set((self.mean.get() * 7 + time) / 8);
    }
}

impl Queue {
    /// Takes a step that may run at once, or returns the receiver that is notified on its turn.
    fn enter(&mut self, is_begun: bool) -> Option<oneshot::Receiver<()>> {
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        let (sender, turn) = oneshot::channel();
        self.waiting(is_begun).push_back(sender);
        Some(turn)
    }

    fn waiting(&mut self, is_begun: bool) -> &mut VecDeque<oneshot::Sender<()>> {
        if is_begun { &mut self.begun } else { &mut self.new }
    }

    /// Begins a step whose turn has come, or returns the receiver that is notified on its next one. Steps may take longer than
    /// their mean time, which clients lower by handshakes that they send a byte at a time.
    fn begin(&mut self, is_begun: bool, spent: Duration) -> Option<oneshot::Receiver<()>> {
        let round = &mut self.round;
        if round.steps < STEPS || spent < round.end {
            round.steps += 1;
            return None;
        }
        self.left = 0;
        let (sender, turn) = oneshot::channel();
        self.postponed.push_back((is_begun, sender));
        Some(turn)
    }

    /// Lets so many steps run, those that wait first.
    fn admit(&mut self, steps: usize) {
        while let Some((is_begun, sender)) = self.postponed.pop_back() {
            self.waiting(is_begun).push_front(sender);
        }
        self.left = steps;
        while self.left > 0 {
            let Some(next) = self.begun.pop_front().or_else(|| self.new.pop_front()) else {
                // What the round before allowed says nothing about a later one.
                self.left = self.left.min(STEPS);
                return;
            };
            // The connection of a receiver that is gone has ended.
            if next.send(()).is_ok() {
                self.left -= 1;
            }
        }
    }
}

/// Returns the number of steps of this mean time that may follow other tasks which took `others`: as long as these together.
fn steps(others: Duration, mean: Duration) -> usize {
    let fair = others.as_nanos() / mean.as_nanos().max(1);
    let fair = usize::try_from(fair).unwrap_or(usize::MAX);
    fair.clamp(STEPS, MOST_STEPS)
}

#[cfg(test)]
mod tests;
