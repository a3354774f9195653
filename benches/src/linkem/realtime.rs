//! Sleeping with precision: ppoll, and the priority of the thread.
#![expect(unsafe_code, reason = "sched_setscheduler has no safe wrapper in std or rustix")]

use std::io;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

/// Priority of a thread in real time, above every ordinary thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Priority of programs whose times are measured.
    Program = 1,
    /// Priority of the emulator, above those.
    Emulator = 2,
}

/// Waits until a descriptor is readable, for `limit` at most. A signal may end it early.
pub(crate) fn await_readable<const N: usize>(
    descriptors: [BorrowedFd<'_>; N],
    limit: Duration,
) -> io::Result<()> {
    let mut watched = descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    match poll(&mut watched, Timespec::try_from(limit).ok().as_ref()) {
        Err(error) if error != Errno::INTR => Err(error.into()),
        _ => Ok(()),
    }
}

/// Makes the thread, and threads and processes that it starts, run before all ordinary ones, and wake without slack. Returns whether
/// they may run before them.
pub fn prioritize(priority: Priority) -> bool {
    // The kernel may fire this thread's timers one nanosecond late.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    // SAFETY: integers, for which zero is a value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority as i32;
    // SAFETY: a local that the kernel reads during the call; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const parameters) };
    result == 0
}
