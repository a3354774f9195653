//! Runs the futures of a connection, those that hyper spawns and one for each exchange, from the thread's own loop.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

pub(super) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Flag of a connection whose futures have something to do.
#[derive(Debug, Default)]
pub(super) struct Alert(AtomicBool);

impl Alert {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns whether it was set, and resets it.
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }

    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Wake for Alert {
    fn wake(self: Arc<Self>) {
        self.set();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
    }
}

/// Takes new futures, also while others run.
#[derive(Clone, Default)]
pub(super) struct Spawner(Rc<RefCell<Vec<Task>>>);

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Spawner {
    fn execute(&self, future: F) {
        self.0.borrow_mut().push(Box::pin(future));
    }
}

/// Futures of a connection.
#[derive(Default)]
pub(super) struct Tasks {
    running: FuturesUnordered<Task>,
    pub(super) spawner: Spawner,
}

impl Tasks {
    /// Runs those that were woken, and new ones.
    pub(super) fn run(&mut self, cx: &mut Context<'_>) {
        loop {
            self.running.extend(self.spawner.0.borrow_mut().drain(..));
            while let Poll::Ready(Some(())) = self.running.poll_next_unpin(cx) {}
            if self.spawner.0.borrow().is_empty() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::task::Waker;

    use hyper::rt::Executor as _;

    use super::*;

    #[test]
    fn futures_run_when_they_are_woken_and_may_spawn_others() {
        let mut tasks = Tasks::default();
        let alert = Arc::new(Alert::default());
        let waker = Waker::from(Arc::clone(&alert));
        let (turns, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let kept = Rc::new(RefCell::new(None));
        let (spawner, waits) = (tasks.spawner.clone(), Rc::clone(&kept));
        let (counted, end) = (Rc::clone(&turns), Rc::clone(&ended));
        tasks.spawner.execute(poll_fn(move |cx| {
            counted.set(counted.get() + 1);
            if counted.get() == 1 {
                *waits.borrow_mut() = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let end = Rc::clone(&end);
            spawner.execute(async move { end.set(true) });
            Poll::Ready(())
        }));
        let mut cx = Context::from_waker(&waker);
        tasks.run(&mut cx);
        // It may be set without need.
        alert.take();
        tasks.run(&mut cx);
        assert_eq!((turns.get(), alert.is_set()), (1, false));
        kept.borrow_mut().take().into_iter().for_each(Waker::wake);
        assert!(alert.take() && !alert.is_set());
        tasks.run(&mut cx);
        assert_eq!((turns.get(), ended.get()), (2, true));
    }
}
