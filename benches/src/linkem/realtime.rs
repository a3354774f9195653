//! Sleeping with precision: ppoll, and the priority of the thread.
#![expect(
    unsafe_code,
    reason = "ppoll, sched_setscheduler and prctl have no safe wrapper in std"
)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr;
use std::time::Duration;

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
    let mut watched = descriptors.map(|descriptor| libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    let count = libc::nfds_t::try_from(N).unwrap_or_default();
    let limit = libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    // SAFETY: locals with their length; no signal mask is given.
    let result = unsafe { libc::ppoll(watched.as_mut_ptr(), count, &raw const limit, ptr::null()) };
    if result < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}

/// Makes the thread, and threads and processes that it starts, run before all ordinary ones, and wake without slack. Returns whether
/// they may run before them.
pub fn prioritize(priority: Priority) -> bool {
    // SAFETY: takes no pointers; the kernel may fire this thread's timers one nanosecond late.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    // SAFETY: integers, for which zero is a value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority as i32;
    // SAFETY: a local that the kernel reads during the call; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const parameters) };
    result == 0
}
