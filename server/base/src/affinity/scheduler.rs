//! The scheduling class of a worker, and the depth of sleep that the host's cores may fall into.

#![expect(unsafe_code, reason = "sched_setscheduler has no safe wrapper in std or rustix")]

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use sluicegate_config::Scheduler;

/// Gives the calling thread its scheduling class. Threads that it starts do not inherit it.
///
/// # Errors
/// The process may not have the class: it takes CAP_SYS_NICE, or RLIMIT_RTPRIO of the priority.
pub fn set(scheduler: Scheduler, priority: u16) -> io::Result<()> {
    let class = match scheduler {
        Scheduler::Normal => return Ok(()),
        Scheduler::Fifo => libc::SCHED_FIFO,
        Scheduler::RoundRobin => libc::SCHED_RR,
    };
    // SAFETY: plain integers, for which all zeroes is a value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority.into();
    let class = class | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `parameters` is valid for reads for the length of the call, which changes the calling thread alone.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, class, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Keeps the host's cores out of states of sleep that take longer than `most` to leave, as long as the file is open.
///
/// # Errors
/// The host has no such device, or the process may not write to it.
pub fn hold_latency(most: Duration) -> io::Result<File> {
    let mut device = File::options().write(true).open("/dev/cpu_dma_latency")?;
    let micros = i32::try_from(most.as_micros()).unwrap_or(i32::MAX);
    device.write_all(&micros.to_ne_bytes())?;
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class() -> i32 {
        // SAFETY: takes no pointers.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn a_thread_gets_its_class_and_passes_it_to_none() {
        let worker = std::thread::spawn(|| {
            set(Scheduler::Normal, 7).unwrap();
            assert_eq!(class(), libc::SCHED_OTHER);
            if let Err(error) = set(Scheduler::RoundRobin, 1) {
                // Without the right it says so.
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                return;
            }
            assert_eq!(class() & !libc::SCHED_RESET_ON_FORK, libc::SCHED_RR);
            let child = std::thread::spawn(class);
            assert_eq!(child.join().unwrap(), libc::SCHED_OTHER);
        });
        worker.join().unwrap();
    }
}
