//! Handle of the task that serves an HTTP/2 stream.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

use sluicegate_http::exchange::Fields;

/// Handle of the task that serves an HTTP/2 stream. The task polls no body while the stream has no window, and this is the only way to
/// end such a stream alone.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamTask(Rc<Signals>);

#[derive(Debug, Default)]
struct Signals {
    cancelled: Notify,
    interims: RefCell<Interims>,
}

/// Informational responses that are to be sent before the final one.
#[derive(Debug, Default)]
struct Interims {
    waiting: VecDeque<(u16, Fields)>,
    waker: Option<Waker>,
}

impl StreamTask {
    /// Drops the task with all that it holds of its response; the stream is reset.
    pub(super) fn cancel(&self) {
        self.0.cancelled.notify_one();
    }

    /// Waits until the task is to be dropped.
    pub(super) async fn cancelled(&self) {
        self.0.cancelled.notified().await;
    }

    /// Has the task send an informational response.
    pub(super) fn inform(&self, status: u16, fields: Fields) {
        let mut interims = self.0.interims.borrow_mut();
        interims.waiting.push_back((status, fields));
        if let Some(waker) = interims.waker.take() {
            waker.wake();
        }
    }

    /// Returns the next informational response.
    pub(super) fn poll_interim(&self, cx: &Context<'_>) -> Poll<(u16, Fields)> {
        let mut interims = self.0.interims.borrow_mut();
        match interims.waiting.pop_front() {
            Some(interim) => Poll::Ready(interim),
            None => {
                interims.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
