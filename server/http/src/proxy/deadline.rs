//! Timer for a deadline that moves.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use tokio::time::{Instant, Sleep, sleep_until};

/// Timer for a deadline that mostly moves back. It is set when somebody first waits, and again only when it expires, or when the
/// deadline moves forward.
#[derive(Debug, Default)]
pub(crate) struct Deadline(Option<Pin<Box<Sleep>>>);

impl Deadline {
    /// Returns whether `deadline` is over. If not, the task is woken at `deadline` at the latest.
    pub(crate) fn is_over(&mut self, cx: &mut Context<'_>, deadline: Instant) -> bool {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if deadline < timer.deadline() {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline {
                return true;
            }
            timer.as_mut().reset(deadline);
        }
        false
    }

    /// Leaves the timer to another waker, which may be woken for nothing: that of the task that waited would keep its memory.
    pub(crate) fn rest(&mut self, cx: &mut Context<'_>) {
        if let Some(timer) = &mut self.0 {
            // Nobody waits, whatever the time is.
            let _ = timer.as_mut().poll(cx);
        }
    }
}
