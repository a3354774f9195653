//! The selector that a driver of sockets sleeps on: epoll, edge-triggered, with a deadline in nanoseconds.
#![expect(unsafe_code, reason = "epoll has no safe wrapper in std or socket2")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use crate::sys::check;

/// Events taken by one wait.
const EVENTS: usize = 64;

/// One event of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    /// Number that the descriptor was added with.
    pub(super) token: u64,
    /// There is something to read, or an error to learn by reading.
    pub(super) readable: bool,
    /// There is room to write, or an error to learn by writing.
    pub(super) writable: bool,
}

/// Descriptors that are watched, and the events of the last wait.
pub(super) struct Selector {
    epoll: OwnedFd,
    events: [libc::epoll_event; EVENTS],
    /// Events of the last wait.
    count: usize,
    /// The kernel has epoll_pwait2 (Linux 5.11), whose deadline is precise.
    precise: bool,
}

impl Selector {
    pub(super) fn open() -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let epoll = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Self {
            // SAFETY: a new descriptor that nobody else has.
            epoll: unsafe { OwnedFd::from_raw_fd(epoll) },
            events: [libc::epoll_event { events: 0, u64: 0 }; EVENTS],
            count: 0,
            precise: true,
        })
    }

    /// Reports edges of readability of `fd`, with its number `token`.
    pub(super) fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, false)
    }

    /// Begins or ends to report edges of writability of `fd`, too.
    pub(super) fn watch_writable(
        &self,
        fd: BorrowedFd<'_>,
        token: u64,
        on: bool,
    ) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, on)
    }

    fn control(
        &self,
        operation: i32,
        fd: BorrowedFd<'_>,
        token: u64,
        writable: bool,
    ) -> io::Result<()> {
        let writable = if writable { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLET | writable).cast_unsigned(),
            u64: token,
        };
        let (epoll, fd) = (self.epoll.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: `event` is valid for the length of the call, and the kernel keeps no pointer.
        check(unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) }).map(drop)
    }

    /// Sleeps until there is an event, at most for `timeout` (`None`: no limit). A signal ends it sooner.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.count = 0;
        let count = match timeout {
            Some(timeout) if self.precise && !timeout.is_zero() => match self
                .wait_precisely(timeout)
            {
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.precise = false;
                    self.wait_millis(whole_millis(timeout))
                }
                result => result,
            },
            Some(timeout) => self.wait_millis(whole_millis(timeout)),
            None => self.wait_millis(-1),
        };
        match count {
            Ok(count) => self.count = count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn wait_precisely(&mut self, timeout: Duration) -> io::Result<usize> {
        // SAFETY: plain integers, for which all zeroes is a value.
        let mut limit: libc::timespec = unsafe { std::mem::zeroed() };
        limit.tv_sec = libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX);
        limit.tv_nsec = timeout.subsec_nanos().into();
        // SAFETY: `events` has room for EVENTS entries and `limit` is valid for reads for the length of the call; there is
        // no signal mask. The kernel keeps no pointer.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS,
                &raw const limit,
                ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    fn wait_millis(&mut self, millis: i32) -> io::Result<usize> {
        let (epoll, most) = (self.epoll.as_raw_fd(), i32::try_from(EVENTS).unwrap_or(1));
        // SAFETY: `events` has room for EVENTS entries for the length of the call, and the kernel keeps no pointer.
        let count = unsafe { libc::epoll_wait(epoll, self.events.as_mut_ptr(), most, millis) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// Returns the events of the last wait.
    pub(super) fn ready(&self) -> impl Iterator<Item = Ready> + use<'_> {
        self.events[..self.count].iter().map(|event| {
            let (token, events) = (event.u64, event.events.cast_signed());
            let failed = events & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
            Ready {
                token,
                readable: failed || events & libc::EPOLLIN != 0,
                writable: failed || events & libc::EPOLLOUT != 0,
            }
        })
    }
}

/// Returns a timeout in whole milliseconds that is not shorter.
fn whole_millis(timeout: Duration) -> i32 {
    let millis = timeout.as_nanos().div_ceil(1_000_000);
    i32::try_from(millis).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_timeout_in_milliseconds_is_not_shorter() {
        let cases = [(0, 0), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2)];
        for (nanos, millis) in cases {
            assert_eq!(whole_millis(Duration::from_nanos(nanos)), millis);
        }
        assert_eq!(whole_millis(Duration::MAX), i32::MAX);
    }

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
            selector.wait(Some(Duration::from_secs(5))).unwrap();
            let ready = Ready {
                token: 7,
                readable: true,
                writable: false,
            };
            assert_eq!(selector.ready().collect::<Vec<_>>(), [ready]);
        }
        assert!(!selector.precise);
    }
}
