//! The handle that ends a worker's sleep.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys;

/// Ends a worker's sleep from another thread.
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// A wake-up is on its way or not yet taken by the driver.
    pending: AtomicBool,
    /// `None` where the driver never sleeps.
    eventfd: Option<File>,
}

impl Waker {
    /// Ends the current or the next [`Dataplane::wait`](crate::Dataplane::wait). Cheap where the worker was woken
    /// already. What this thread wrote before is seen by the worker after its wait.
    pub fn wake(&self) {
        if self.shared.pending.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(mut eventfd) = self.shared.eventfd.as_ref() {
            // Only a full counter could refuse, and `pending` keeps it at one.
            let written = eventfd.write(&1u64.to_ne_bytes());
            debug_assert!(written.is_ok(), "eventfd: {written:?}");
        }
    }

    /// Makes one with an eventfd, which a driver sleeps on.
    pub(crate) fn open(nonblocking: bool) -> io::Result<Self> {
        let eventfd = sys::eventfd(nonblocking)?;
        Ok(Self {
            shared: Arc::new(Shared {
                pending: AtomicBool::new(false),
                eventfd: Some(File::from(eventfd)),
            }),
        })
    }

    /// Makes one for a driver that never sleeps.
    #[cfg(feature = "test-backends")]
    pub(crate) fn idle() -> Self {
        Self {
            shared: Arc::new(Shared {
                pending: AtomicBool::new(false),
                eventfd: None,
            }),
        }
    }

    /// Returns the descriptor that a driver's selector watches.
    pub(crate) fn fd(&self) -> Option<RawFd> {
        self.shared.eventfd.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Empties the eventfd; to be called before [`Waker::take`], else a wake-up in between would be lost.
    pub(crate) fn drain(&self) {
        if let Some(mut eventfd) = self.shared.eventfd.as_ref() {
            let mut count = [0; 8];
            // Would block where it is empty: that is what is wanted.
            let _ = eventfd.read(&mut count);
        }
    }

    /// Takes the wake-up: the next [`Waker::wake`] is a new one. Returns true if there was one.
    pub(crate) fn take(&self) -> bool {
        self.shared.pending.swap(false, Ordering::AcqRel)
    }
}
