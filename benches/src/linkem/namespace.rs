//! Network namespaces that end with their last user, and TUN devices in them.
#![expect(unsafe_code, reason = "unshare and TUNSETIFF have no safe wrapper in std or rustix")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::resume_unwind;
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// A network namespace. It has no name: the kernel removes it once this value, all threads and processes in it, and all sockets and
/// devices of it are gone, however the process ends.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Makes a namespace.
    ///
    /// # Errors
    ///
    /// The process may not: it takes the rights of root, or a user namespace.
    pub fn new() -> io::Result<Self> {
        let made = thread::spawn(|| {
            // SAFETY: this thread alone gets another network namespace, and shares its descriptors as before.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = made.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok(Self { file })
    }

    /// Runs `work` on a thread in the namespace. Sockets, threads and processes that it starts are there, too.
    ///
    /// # Errors
    ///
    /// The process may not enter.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(self.file.as_fd(), network)?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}

/// Makes a TUN device in the namespace of the thread: reading returns one IP packet that was sent there, and writing one lets it
/// arrive. The device ends with the file. Reading does not block.
///
/// # Errors
///
/// The system has no TUN devices, or the process may not make any.
pub(super) fn open_tun(name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: integers and pointers, for which all zeroes (null) is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    debug_assert!(name.len() < request.ifr_name.len());
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI;
    request.ifr_ifru.ifru_flags = i16::try_from(flags).unwrap_or_default();
    // SAFETY: an open descriptor, and a local that the kernel reads and writes during the call, with a zero at its name's end.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })?;
    Ok(file)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
