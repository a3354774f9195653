//! Waits for sockets, with a deadline finer than a millisecond.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::{Errno, Result};

/// Events taken at a time.
const EVENTS: usize = 256;

/// Events to watch for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// There is something to receive.
    Input,
    /// Something has arrived, or there is room to send again: each time once.
    Changes,
}

impl Watch {
    fn flags(self) -> epoll::EventFlags {
        use epoll::EventFlags;
        match self {
            Watch::Input => EventFlags::IN,
            Watch::Changes => EventFlags::IN | EventFlags::OUT | EventFlags::ET,
        }
    }
}

/// Sockets that are watched, and the events of the last wait.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    pub(crate) fn new() -> Result<Self> {
        Ok(Poller {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS),
        })
    }

    /// Reports from now on events of `socket`, by its number. Closing it ends that.
    pub(crate) fn add(&self, socket: impl AsFd, number: usize, watch: Watch) -> Result<()> {
        let data = epoll::EventData::new_u64(number as u64);
        epoll::add(&self.epoll, socket, data, watch.flags())
    }

    /// Sleeps until a socket has an event, at most for `limit`; a signal ends it sooner.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<()> {
        self.take()?;
        if self.events.is_empty() && !limit.is_zero() {
            // epoll_wait counts in milliseconds, ppoll in nanoseconds.
            let limit = Timespec {
                tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: limit.subsec_nanos().into(),
            };
            let mut watched = [PollFd::new(&self.epoll, PollFlags::IN)];
            uninterrupted(poll(&mut watched, Some(&limit)))?;
            self.take()?;
        }
        Ok(())
    }

    fn take(&mut self) -> Result<()> {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.events.clear();
        let room = spare_capacity(&mut self.events);
        uninterrupted(epoll::wait(&self.epoll, room, Some(&AT_ONCE)))?;
        Ok(())
    }

    /// Returns the number of the `index`-th socket of the last wait that has one.
    pub(crate) fn ready(&self, index: usize) -> Option<usize> {
        let data = self.events.get(index)?.data;
        usize::try_from(data.u64()).ok()
    }
}

fn uninterrupted(result: Result<usize>) -> Result<usize> {
    match result {
        Err(Errno::INTR) => Ok(0),
        result => result,
    }
}
