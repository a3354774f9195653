//! The XDP program of an interface that AF_XDP sockets receive from.
//!
//! The library's driver would attach one that passes it every frame, or one from a file, and has nothing to offer for
//! several devices on one interface. So it gets a file with a placeholder, which is removed when the driver has opened its
//! sockets; these are put into a map of this module's own program, which is attached last. The program is held by a link,
//! which ends with the process in whatever way: then every frame is the kernel's again.
#![expect(unsafe_code, reason = "descriptors and their kinds")]

mod assembler;
mod bpf;
mod netlink;
mod placeholder;
mod program;

#[cfg(test)]
mod tests;

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

pub use self::program::XdpFrames;
use crate::error::Error;

/// Names of the objects in the kernel. Programs of a process that was killed are known by the start of their names.
const OURS: &str = "sluicegate";
const NAME: &[u8; bpf::NAME_LEN] = b"sluicegate\0\0\0\0\0\0";
const STEP: &str = "attach an XDP program";

/// Use of an interface by AF_XDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// Name of the interface.
    pub interface: String,
    /// Frames that the port receives.
    pub frames: XdpFrames,
}

/// An interface whose sockets are being opened.
#[derive(Debug)]
pub(crate) struct XdpOpening {
    name: String,
    /// Index of the interface.
    interface: u32,
    /// Object file of the placeholder, in memory.
    placeholder: File,
    map: OwnedFd,
    program: OwnedFd,
    /// AF_XDP sockets of the process that are known.
    sockets: Vec<RawFd>,
}

/// A program that is attached to an interface until this is dropped.
#[derive(Debug)]
pub(crate) struct XdpLink {
    _link: OwnedFd,
}

impl XdpOpening {
    /// Loads the program for `queues` queues of an interface that has no other.
    pub(crate) fn new(options: &XdpOptions, queues: u16) -> Result<Self, Error> {
        let name = options.interface.clone();
        let interface = index_of(&name)
            .ok_or_else(|| Error::because(STEP, format!("there is no interface {name}")))?;
        free(&name, interface)?;
        let queues = u32::from(queues);
        let map = bpf::make_map(NAME, queues).map_err(|e| failed("make a map of sockets", &e))?;
        let code = program::program(&options.frames, map.as_raw_fd(), program::PASS);
        let code =
            code.ok_or_else(|| Error::because(STEP, "there are too many addresses and listeners"))?;
        let program = bpf::load(NAME, &code).map_err(|e| failed("load the XDP program", &e))?;
        let placeholder = in_memory(&placeholder::object(queues));
        Ok(Self {
            name,
            interface,
            placeholder: placeholder.map_err(|e| failed("make a file in memory", &e))?,
            map,
            program,
            sockets: sockets().map_err(|e| failed("list descriptors", &e))?,
        })
    }

    /// Returns what a device's arguments must say.
    pub(crate) fn arguments(&self) -> String {
        format!(",xdp_prog=/proc/self/fd/{}", self.placeholder.as_raw_fd())
    }

    /// Finds the socket that the driver has just opened for a queue of the interface.
    pub(crate) fn add_queue(&mut self, queue: u32) -> Result<(), Error> {
        let now = sockets().map_err(|e| failed("list descriptors", &e))?;
        let new = now.iter().find(|fd| !self.sockets.contains(fd));
        let new =
            new.ok_or_else(|| Error::because(STEP, format!("queue {queue} has no socket")))?;
        bpf::set_socket(self.map.as_fd(), queue, *new)
            .map_err(|e| failed("register a socket", &e))?;
        self.sockets = now;
        Ok(())
    }

    /// Removes the placeholder that a device has attached.
    pub(crate) fn end_device(&self) -> Result<(), Error> {
        netlink::detach(self.interface).map_err(|e| failed("remove the placeholder", &e))
    }

    /// Attaches the program, now that all sockets are there.
    pub(crate) fn attach(self) -> Result<XdpLink, Error> {
        let link = bpf::attach(self.program.as_fd(), self.interface);
        let link =
            link.map_err(|e| failed(&format!("attach an XDP program to {}", self.name), &e))?;
        Ok(XdpLink { _link: link })
    }
}

/// Checks that an interface has no XDP program, and removes one that a killed process of ours has left.
fn free(name: &str, interface: u32) -> Result<(), Error> {
    let id = netlink::program_id(interface).map_err(|e| failed("ask for XDP programs", &e))?;
    let Some(id) = id else {
        return Ok(());
    };
    let program = bpf::program_name(id);
    let is_ours = program.as_ref().is_some_and(|name| name.starts_with(OURS));
    // That of a process that runs cannot be removed.
    if is_ours && netlink::detach(interface).is_ok() {
        return Ok(());
    }
    // The kernel tells the name only to processes with CAP_SYS_ADMIN.
    let program = program.unwrap_or_else(|| {
        format!(
            "number {id}, of unknown name; if a server left it that was killed at its start: \
             ip link set dev {name} xdp off"
        )
    });
    let cause = format!("{name} has one already: {program}");
    let mut occupied = Error::because(STEP, cause);
    occupied.errno = libc::EEXIST;
    Err(occupied)
}

fn failed(step: &str, error: &io::Error) -> Error {
    Error::of(step, error.raw_os_error().unwrap_or(libc::EIO))
}

fn index_of(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: reads a string that ends with a zero.
    Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|index| *index != 0)
}

fn in_memory(content: &[u8]) -> io::Result<File> {
    // SAFETY: reads a string that ends with a zero.
    let fd = unsafe { libc::memfd_create(c"sluicegate.o".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was opened above.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.write_all(content)?;
    Ok(file)
}

/// Returns the AF_XDP sockets of the process.
fn sockets() -> io::Result<Vec<RawFd>> {
    let entries = fs::read_dir("/proc/self/fd")?;
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let fds = names.filter_map(|name| name.to_str()?.parse().ok());
    Ok(fds.filter(|fd| is_af_xdp(*fd)).collect())
}

fn is_af_xdp(fd: RawFd) -> bool {
    let mut domain: libc::c_int = 0;
    let mut length: libc::socklen_t = 4;
    // SAFETY: the kernel writes as many bytes as the length says into a local; it refuses what is no socket.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_DOMAIN,
            (&raw mut domain).cast(),
            &raw mut length,
        )
    };
    result == 0 && domain == libc::AF_XDP
}
