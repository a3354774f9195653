//! Requests to threads that may be slow, or gone.

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::{Instant, timeout_at};

/// A request to a thread, of which at most one is outstanding: a thread that does not read its mailbox costs no memory.
/// A thread that has ended owes no reply.
#[derive(Debug)]
pub(crate) struct OutstandingRequest<T> {
    pending: Option<oneshot::Receiver<T>>,
}

impl<T> Default for OutstandingRequest<T> {
    fn default() -> Self {
        OutstandingRequest { pending: None }
    }
}

impl<T> OutstandingRequest<T> {
    /// Sends the request unless an earlier one is outstanding. `post` returns whether the mailbox took it.
    pub(crate) fn send(&mut self, post: impl FnOnce(oneshot::Sender<T>) -> bool) {
        if self.pending.is_none() {
            let (reply, pending) = oneshot::channel();
            self.pending = post(reply).then_some(pending);
        }
    }

    /// Returns the reply, if it has come.
    pub(crate) fn try_receive(&mut self) -> Option<T> {
        let reply = match self.pending.as_mut()?.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Closed) => None,
            Ok(reply) => Some(reply),
        };
        self.pending = None;
        reply
    }

    /// Returns the reply, if it comes before `limit`. [`OutstandingRequest::try_receive`] returns a later one.
    pub(crate) async fn receive_until(&mut self, limit: Instant) -> Option<T> {
        let reply = timeout_at(limit, self.pending.as_mut()?).await.ok()?;
        self.pending = None;
        reply.ok()
    }

    /// Returns whether a reply may still come.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }
}
