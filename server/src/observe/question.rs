//! Questions to threads that may be slow, or gone.

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::{Instant, timeout_at};

/// A question that is put into a thread's mailbox once at a time: what the thread does not read costs no memory. A thread
/// that has ended owes no answer.
#[derive(Debug)]
pub(crate) struct Question<T> {
    pending: Option<oneshot::Receiver<T>>,
}

impl<T> Default for Question<T> {
    fn default() -> Self {
        Question { pending: None }
    }
}

impl<T> Question<T> {
    /// Asks, unless an earlier question lies there still. `post` answers whether the mailbox took it.
    pub(crate) fn ask(&mut self, mailbox: impl FnOnce(oneshot::Sender<T>) -> bool) {
        if self.pending.is_none() {
            let (answer, pending) = oneshot::channel();
            self.pending = mailbox(answer).then_some(pending);
        }
    }

    /// The answer, if it has come by now.
    pub(crate) fn answer(&mut self) -> Option<T> {
        let answer = match self.pending.as_mut()?.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Closed) => None,
            Ok(answer) => Some(answer),
        };
        self.pending = None;
        answer
    }

    /// The answer, if it comes in time. A late one can be had by [`Question::answer`].
    pub(crate) async fn answer_until(&mut self, limit: Instant) -> Option<T> {
        let answer = timeout_at(limit, self.pending.as_mut()?).await.ok()?;
        self.pending = None;
        answer.ok()
    }

    /// Whether it was asked and an answer may still come.
    pub(crate) fn is_open(&self) -> bool {
        self.pending.is_some()
    }
}
