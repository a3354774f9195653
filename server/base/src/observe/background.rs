//! A thread that writes the items of other threads. They never wait for it: its queue is bounded and refuses an item that does not
//! fit.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// Time without an item after which the thread is idle.
const IDLE: Duration = Duration::from_secs(1);

/// The work of the thread, an item at a time.
pub(super) trait Job: Send + 'static {
    /// Type of the items.
    type Item: Send;

    /// Whether it keeps items: those count against the bound of the queue as long as [`Job::held`] has them.
    const KEEPS_ITEMS: bool = false;

    /// Prepares the work, before the first item.
    fn begin(&mut self) {}

    /// Processes an item.
    fn take(&mut self, item: Self::Item);

    /// Runs after a wake-up without an item.
    fn on_wake(&mut self) {}

    /// Runs if nothing arrived for a second.
    fn on_idle(&mut self) {}

    /// Returns the bytes of the items that it keeps.
    fn held(&self) -> u64 {
        0
    }

    /// Goes on with what could not be done. Returns the time until it can be tried again, during which no item is taken.
    fn resume(&mut self) -> Option<Duration> {
        None
    }

    /// Runs when the thread is to end, before the items that still wait.
    fn on_close(&mut self) {}

    /// Runs after the last item.
    fn end(&mut self) {}
}

/// Bounds on the items that wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) items: usize,
    pub(super) bytes: u64,
}

/// The sending end of the thread's queue; cheap to clone.
#[derive(Debug)]
pub(super) struct Queue<T> {
    sender: SyncSender<Message<T>>,
    level: Arc<Level>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), level: Arc::clone(&self.level) }
    }
}

/// Size of the waiting items.
#[derive(Debug)]
struct Level {
    bytes: AtomicU64,
    limit: u64,
    closing: AtomicBool,
}

#[derive(Debug)]
enum Message<T> {
    /// An item with its size in bytes.
    Item(T, u64),
    /// A wake-up without an item.
    Wake,
}

impl<T> Queue<T> {
    /// Sends an item of `bytes`. Returns whether there was room for it and a thread to read it.
    pub(super) fn send(&self, item: T, bytes: u64) -> bool {
        let waiting = &self.level.bytes;
        let fits = waiting.fetch_add(bytes, Ordering::AcqRel) + bytes <= self.level.limit;
        let sent =
            fits && !self.is_closing() && self.sender.try_send(Message::Item(item, bytes)).is_ok();
        if !sent {
            waiting.fetch_sub(bytes, Ordering::AcqRel);
        }
        sent
    }

    /// Returns whether no further item is taken.
    pub(super) fn is_closing(&self) -> bool {
        self.level.closing.load(Ordering::Acquire)
    }

    /// Returns the bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.level.bytes.load(Ordering::Relaxed)
    }

    /// Wakes the thread. A full queue keeps it awake anyway.
    pub(super) fn wake(&self) {
        let _ = self.sender.try_send(Message::Wake);
    }
}

/// Owns the thread. Dropping it ends the thread without waiting for it.
#[derive(Debug)]
pub(super) struct Background<T> {
    pub(super) queue: Queue<T>,
    thread: Thread,
    /// Disconnected once the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl<T: Send + 'static> Background<T> {
    /// Creates the queue and starts the thread with its job.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(super) fn start<J: Job<Item = T>>(
        name: &str,
        bounds: Bounds,
        job: J,
    ) -> io::Result<Background<T>> {
        let (sender, receiver) = sync_channel(bounds.items.max(1));
        let level = Arc::new(Level {
            bytes: AtomicU64::new(0),
            limit: bounds.bytes,
            closing: AtomicBool::new(false),
        });
        let (end, ended) = sync_channel(1);
        let queue = Queue { sender, level };
        let level = Arc::clone(&queue.level);
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            run(job, &receiver, &level);
            drop(end);
        })?;
        Ok(Background { queue, thread: handle.thread().clone(), ended: Mutex::new(ended) })
    }
}

impl<T> Background<T> {
    /// Lets the thread finish its items and end, and returns whether it did within `limit`. If the disk hangs, the thread is left
    /// behind.
    pub(super) fn shutdown(&self, limit: Duration) -> bool {
        self.close();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.recv_timeout(limit) == Err(RecvTimeoutError::Disconnected)
    }

    fn close(&self) {
        self.queue.level.closing.store(true, Ordering::Release);
        self.queue.wake();
        self.thread.unpark();
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        self.close();
    }
}

fn run<J: Job>(mut job: J, receiver: &Receiver<Message<J::Item>>, level: &Level) {
    let mut held = 0;
    job.begin();
    while !level.closing.load(Ordering::Acquire) {
        let pause = job.resume();
        level.move_to(&mut held, job.held(), 0);
        if let Some(pause) = pause {
            // It ends early if the thread is to end.
            std::thread::park_timeout(pause);
            continue;
        }
        match receiver.recv_timeout(IDLE) {
            Ok(message) => read(&mut job, message, &mut held, level),
            Err(RecvTimeoutError::Timeout) => job.on_idle(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    job.on_close();
    // Ends: since `closing` is set, nothing is added.
    while let Ok(message) = receiver.try_recv() {
        read(&mut job, message, &mut held, level);
    }
    job.end();
    level.move_to(&mut held, job.held(), 0);
}

fn read<J: Job>(job: &mut J, message: Message<J::Item>, held: &mut u64, level: &Level) {
    match message {
        Message::Item(item, bytes) => {
            if J::KEEPS_ITEMS {
                job.take(item);
                level.move_to(held, job.held(), bytes);
            } else {
                level.bytes.fetch_sub(bytes, Ordering::AcqRel);
                job.take(item);
            }
        }
        Message::Wake => job.on_wake(),
    }
}

impl Level {
    /// Counts an item of so many bytes no more, and what the job holds `now` in place of what it `held`.
    fn move_to(&self, held: &mut u64, now: u64, item: u64) {
        let gone = std::mem::replace(held, now) + item;
        if now >= gone {
            self.bytes.fetch_add(now - gone, Ordering::AcqRel);
        } else {
            self.bytes.fetch_sub(gone - now, Ordering::AcqRel);
        }
    }
}

/// Health of a disk, logged once whenever it changes.
#[derive(Debug)]
pub(super) struct Health {
    subject: &'static str,
    /// Kind of the error by which it last failed.
    failing: Option<io::ErrorKind>,
}

impl Health {
    /// Creates the health of the disk of `subject`, a name for the log.
    pub(super) fn new(subject: &'static str) -> Health {
        Health { subject, failing: None }
    }

    /// Records that the disk works.
    pub(super) fn works(&mut self) {
        if self.failing.take().is_some() {
            tracing::info!("{}: the disk works again", self.subject);
        }
    }

    /// Records that an operation failed. The log tells the first error, and each of another kind.
    pub(super) fn failed(&mut self, action: &str, name: &str, error: &io::Error) {
        if self.failing.replace(error.kind()) != Some(error.kind()) {
            let subject = self.subject;
            tracing::warn!(%error, "{subject}: cannot {action} {name}; records are dropped until it works again");
        }
    }
}
