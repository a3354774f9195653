//! A deadline that moves.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use tokio::time::{Instant, Sleep, sleep_until};

/// Waits for deadlines that mostly move back: the timer is then set anew only when it has run out.
#[derive(Debug)]
pub(super) struct Deadline(Pin<Box<Sleep>>);

impl Deadline {
    pub(super) fn until(deadline: Instant) -> Deadline {
        Deadline(Box::pin(sleep_until(deadline)))
    }

    /// Whether `deadline` is over; if not, the task is woken no later than then.
    pub(super) fn is_over(&mut self, cx: &mut Context<'_>, deadline: Instant) -> bool {
        if deadline < self.0.deadline() {
            self.0.as_mut().reset(deadline);
        }
        while self.0.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline {
                return true;
            }
            self.0.as_mut().reset(deadline);
        }
        false
    }
}
