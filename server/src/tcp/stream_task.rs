//! Tasks of HTTP/2 streams, which hyper has an executor run.

use std::future::Future;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::task::spawn_local;

tokio::task_local! {
    static STREAM: StreamTask;
}

/// Handle of the tasks that serve an HTTP/2 stream. hyper polls no body while a stream has no window, and this is the only way to end
/// such a stream alone.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamTask(Rc<Signals>);

#[derive(Debug, Default)]
struct Signals {
    cancelled: Notify,
    /// The task that writes a tunnel has ended.
    ended: Notify,
}

impl StreamTask {
    /// Returns the task that is polled; `None` outside of HTTP/2.
    pub(super) fn current() -> Option<StreamTask> {
        STREAM.try_with(Clone::clone).ok()
    }

    /// Drops the task with all that it holds of its response; the stream is reset.
    pub(super) fn cancel(&self) {
        self.0.cancelled.notify_one();
    }

    /// Waits until nothing more can be written to the tunnel that the stream has become.
    pub(super) async fn ended(&self) {
        self.0.ended.notified().await;
    }
}

/// Runs the tasks of HTTP/2 streams on the origin thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for StreamExecutor {
    fn execute(&self, task: F) {
        // The task that writes a tunnel is started by that of its stream.
        let (stream, is_tunnel) = match StreamTask::current() {
            Some(stream) => (stream, true),
            None => (StreamTask::default(), false),
        };
        let signals = Rc::clone(&stream.0);
        spawn_local(async move {
            tokio::select! {
                // What the task has not sent when it is cancelled is not to be sent.
                biased;
                () = signals.cancelled.notified() => {}
                _ = STREAM.scope(stream, task) => {}
            }
            if is_tunnel {
                signals.ended.notify_one();
            }
        });
    }
}
