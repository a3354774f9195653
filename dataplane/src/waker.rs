//! The handle that ends a worker's sleep.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// The worker runs, and nobody woke it since its last wait.
const AWAKE: u8 = 0;
/// The worker sleeps or is about to: only the eventfd wakes it.
const ASLEEP: u8 = 1;
/// The worker was woken and has not noticed yet.
const WOKEN: u8 = 2;

/// Ends a worker's sleep from another thread.
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// [`AWAKE`], [`ASLEEP`] or [`WOKEN`].
    state: AtomicU8,
    /// `None` where the driver never sleeps.
    eventfd: Option<File>,
}

impl Waker {
    /// Ends the current or the next [`Dataplane::wait`](crate::Dataplane::wait). It makes a system call only while the
    /// worker sleeps. What this thread wrote before is seen by the worker after its wait.
    pub fn wake(&self) {
        if self.shared.state.swap(WOKEN, Ordering::AcqRel) != ASLEEP {
            return;
        }
        if let Some(mut eventfd) = self.shared.eventfd.as_ref() {
            // Only a full counter could refuse, which takes more wake-ups than there will be.
            let written = eventfd.write(&1u64.to_ne_bytes());
            debug_assert!(written.is_ok(), "eventfd: {written:?}");
        }
    }

    /// Makes one with an eventfd, which a driver sleeps on.
    pub(crate) fn open(nonblocking: bool) -> io::Result<Self> {
        let mut flags = EventfdFlags::CLOEXEC;
        flags.set(EventfdFlags::NONBLOCK, nonblocking);
        let eventfd = eventfd(0, flags)?;
        Ok(Self {
            shared: Arc::new(Shared {
                state: AtomicU8::new(AWAKE),
                eventfd: Some(File::from(eventfd)),
            }),
        })
    }

    /// Makes one for a driver that never sleeps.
    #[cfg(feature = "test-backends")]
    pub(crate) fn idle() -> Self {
        Self { shared: Arc::new(Shared { state: AtomicU8::new(AWAKE), eventfd: None }) }
    }

    /// Returns the descriptor that a driver sleeps on. Nobody needs to read it where edges are watched.
    pub(crate) fn eventfd(&self) -> Option<BorrowedFd<'_>> {
        self.shared.eventfd.as_ref().map(AsFd::as_fd)
    }

    /// Empties the eventfd, for a driver that watches its level.
    #[cfg(feature = "dpdk")]
    pub(crate) fn drain(&self) {
        if let Some(mut eventfd) = self.shared.eventfd.as_ref() {
            let mut count = [0; 8];
            // It refuses where it is empty: that is what is wanted.
            let _ = io::Read::read(&mut eventfd, &mut count);
        }
    }

    /// Announces that the driver is about to sleep. Returns false where it must not: it was woken already.
    pub(crate) fn begin_sleep(&self) -> bool {
        let state = &self.shared.state;
        let begun = state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
        begun.is_ok()
    }

    /// Takes the wake-up, after a sleep or without one: the next [`Waker::wake`] is a new one. Returns true if there was
    /// one.
    pub(crate) fn take(&self) -> bool {
        self.shared.state.swap(AWAKE, Ordering::AcqRel) == WOKEN
    }
}
