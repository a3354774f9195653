//! Timer for a deadline that moves.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use tokio::time::{Instant, Sleep, sleep_until};

/// Timer for a deadline that mostly moves back. It is set again only when it expires, or when the deadline moves forward.
#[derive(Debug)]
pub(super) struct Deadline(Pin<Box<Sleep>>);

impl Deadline {
    pub(super) fn until(deadline: Instant) -> Deadline {
        Deadline(Box::pin(sleep_until(deadline)))
    }

    /// Returns whether `deadline` is over. If not, the task is woken at `deadline` at the latest.
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
