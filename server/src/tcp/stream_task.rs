//! Tasks of HTTP/2 streams, which hyper has an executor run.

use std::future::Future;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::task::spawn_local;

tokio::task_local! {
    static STREAM: StreamTask;
}

/// Handle of the task that serves an HTTP/2 stream. hyper polls no body while a stream has no window, and this is the only way to end
/// such a stream alone.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamTask(Rc<Notify>);

impl StreamTask {
    /// Returns the task that is polled; `None` outside of HTTP/2.
    pub(super) fn current() -> Option<StreamTask> {
        STREAM.try_with(Clone::clone).ok()
    }

    /// Drops the task with all that it holds of its response; the stream is reset.
    pub(super) fn cancel(&self) {
        self.0.notify_one();
    }
}

/// Runs the tasks of HTTP/2 streams on the origin thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for StreamExecutor {
    fn execute(&self, task: F) {
        let stream = StreamTask::default();
        let cancelled = Rc::clone(&stream.0);
        spawn_local(async move {
            tokio::select! {
                _ = STREAM.scope(stream, task) => {}
                () = cancelled.notified() => {}
            }
        });
    }
}
