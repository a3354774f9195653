//! Sockets that a service manager passed (LISTEN_FDS, sd_listen_fds(3)).

#![expect(unsafe_code, reason = "descriptors come as numbers")]

use std::os::fd::BorrowedFd;

use sluicegate_dataplane::Inherited;

/// Returns the sockets; `None` if there are none, they are for another process, or one of them is not open.
pub(super) fn sockets() -> Option<Inherited> {
    let fds = sd_notify::listen_fds().ok().filter(|fds| fds.len() > 0)?;
    // SAFETY: `listen_fds` has just set FD_CLOEXEC on each, so each is open, and nothing else in this process uses its number.
    Some(Inherited::duplicate(fds.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })))
}
