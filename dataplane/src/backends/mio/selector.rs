//! The selector that a driver of sockets sleeps on: the crate mio, with deadlines in nanoseconds. Its events are edges.
#![expect(
    unsafe_code,
    reason = "mio waits in milliseconds, and so does rustix where it supports kernels before Linux 5.11"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

/// Events taken by one wait.
const EVENTS: usize = 64;

/// One event of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    /// Number that the descriptor was added with.
    pub(super) token: usize,
    /// There is something to read, or an error to learn by reading.
    pub(super) readable: bool,
    /// There is room to write, or an error to learn by writing.
    pub(super) writable: bool,
}

/// Descriptors that are watched, and the events of the last wait.
pub(super) struct Selector {
    poll: Poll,
    /// Events of the last wait without a precise deadline.
    events: Events,
    /// Those of the last wait with one.
    precise_events: [libc::epoll_event; EVENTS],
    /// Number of these events.
    count: usize,
    /// The kernel has epoll_pwait2 (Linux 5.11), whose deadline is precise.
    precise: bool,
}

impl Selector {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS),
            precise_events: [libc::epoll_event { events: 0, u64: 0 }; EVENTS],
            count: 0,
            precise: true,
        })
    }

    /// Reports edges of readability of `fd`, with its number `token`.
    pub(super) fn add(&self, fd: BorrowedFd<'_>, token: usize) -> io::Result<()> {
        let mut source = SourceFd(&fd.as_raw_fd());
        let registry = self.poll.registry();
        registry.register(&mut source, Token(token), Interest::READABLE)
    }

    /// Reports nothing of `fd` any more.
    pub(super) fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.poll.registry().deregister(&mut SourceFd(&fd.as_raw_fd()))
    }

    /// Begins or ends to report edges of writability of `fd`, too; it was added if `is_added`.
    pub(super) fn watch_writable(
        &self,
        fd: BorrowedFd<'_>,
        token: usize,
        (on, is_added): (bool, bool),
    ) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        let mut source = SourceFd(&fd.as_raw_fd());
        let registry = self.poll.registry();
        match (on, is_added) {
            (true, true) => registry.reregister(&mut source, Token(token), both),
            (false, true) => registry.reregister(&mut source, Token(token), Interest::READABLE),
            (true, false) => registry.register(&mut source, Token(token), Interest::WRITABLE),
            (false, false) => registry.deregister(&mut source),
        }
    }

    /// Sleeps until there is an event, at most for `timeout` (`None`: no limit). A signal ends it sooner.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.events.clear();
        self.count = 0;
        let waited = match timeout {
            Some(limit) if self.precise && !limit.is_zero() => match self.wait_precisely(limit) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.precise = false;
                    self.poll.poll(&mut self.events, timeout)
                }
                result => result,
            },
            _ => self.poll.poll(&mut self.events, timeout),
        };
        match waited {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Sleeps on mio's own descriptor.
    fn wait_precisely(&mut self, limit: Duration) -> io::Result<()> {
        // SAFETY: plain integers, for which all zeroes is a value.
        let mut timeout: libc::timespec = unsafe { std::mem::zeroed() };
        timeout.tv_sec = libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX);
        timeout.tv_nsec = limit.subsec_nanos().into();
        // SAFETY: `precise_events` has room for EVENTS entries and `timeout` is valid for reads for the length of the call; there
        // is no signal mask. The kernel keeps no pointer.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.poll.as_raw_fd(),
                self.precise_events.as_mut_ptr(),
                EVENTS,
                &raw const timeout,
                ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        self.count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        Ok(())
    }

    /// Returns the events of the last wait.
    pub(super) fn ready(&self) -> impl Iterator<Item = Ready> + use<'_> {
        let events = self.events.iter().map(|event| {
            let failed = event.is_error() || event.is_read_closed();
            Ready {
                token: event.token().0,
                readable: failed || event.is_readable(),
                writable: failed || event.is_writable(),
            }
        });
        let precise_events = self.precise_events[..self.count].iter().map(|event| {
            // The number, as mio registers it.
            let (token, events) = (event.u64, event.events.cast_signed());
            let failed = events & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
            Ready {
                token: usize::try_from(token).unwrap_or(usize::MAX),
                readable: failed || events & libc::EPOLLIN != 0,
                writable: failed || events & libc::EPOLLOUT != 0,
            }
        });
        events.chain(precise_events)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn without_epoll_pwait2_it_waits_in_milliseconds() {
        let mut selector = Selector::open().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        selector.add(socket.as_fd(), 7).unwrap();
        for precise in [true, false] {
            selector.precise = precise;
            selector.wait(Some(Duration::from_micros(100))).unwrap();
            assert_eq!(selector.ready().count(), 0);
            socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
            selector.wait(Some(Duration::from_micros(5_000_001))).unwrap();
            let ready = Ready { token: 7, readable: true, writable: false };
            assert_eq!(selector.ready().collect::<Vec<_>>(), [ready]);
            assert_eq!(selector.precise, precise);
        }
    }
}
