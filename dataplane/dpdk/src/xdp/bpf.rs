//! The system call bpf(2): maps, programs, and their links to interfaces.
#![expect(unsafe_code, reason = "system calls that have no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use super::assembler::Instruction;

/// Commands of linux/bpf.h.
mod command {
    pub(super) const MAP_CREATE: libc::c_int = 0;
    pub(super) const MAP_UPDATE_ELEM: libc::c_int = 2;
    pub(super) const PROG_LOAD: libc::c_int = 5;
    #[cfg(test)]
    pub(super) const PROG_TEST_RUN: libc::c_int = 10;
    pub(super) const PROG_GET_FD_BY_ID: libc::c_int = 13;
    pub(super) const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
    pub(super) const LINK_CREATE: libc::c_int = 28;
}

/// Type of a map of AF_XDP sockets.
pub(super) const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
/// Lets AF_XDP sockets receive frames of the interface by this program.
const LICENSE: &[u8] = b"Apache-2.0\0";

/// Length of an object's name, with a zero at the end.
pub(super) const NAME_LEN: usize = 16;

/// Attributes of a command.
///
/// # Safety
/// Every byte of the type has a value, all zeroes is one, and its fields are laid out as the command's in `union bpf_attr`.
unsafe trait Attributes: Sized {}

macro_rules! attributes {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Default)]
        struct $name { $($field: $kind,)* }

        // SAFETY: integers and arrays of them without padding, which the assertion below shows, as in linux/bpf.h.
        unsafe impl Attributes for $name {}

        const _: () = assert!(size_of::<$name>() == $(size_of::<$kind>() +)* 0);
    };
}

attributes! {
    /// Attributes of the command MAP_CREATE.
    MapCreate {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
        inner_map_fd: u32,
        numa_node: u32,
        map_name: [u8; NAME_LEN],
    }
}

attributes! {
    /// Attributes of the command MAP_UPDATE_ELEM.
    MapUpdate {
        map_fd: RawFd,
        reserved: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
}

attributes! {
    /// Attributes of the command PROG_LOAD.
    ProgramLoad {
        prog_type: u32,
        insn_cnt: u32,
        insns: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log_buf: u64,
        kern_version: u32,
        prog_flags: u32,
        prog_name: [u8; NAME_LEN],
    }
}

attributes! {
    /// Attributes of the command LINK_CREATE.
    LinkCreate {
        prog_fd: RawFd,
        target_ifindex: u32,
        attach_type: u32,
        flags: u32,
    }
}

attributes! {
    /// Attributes of the command PROG_GET_FD_BY_ID.
    ProgramById {
        prog_id: u32,
        next_id: u32,
        open_flags: u32,
    }
}

attributes! {
    /// Attributes of the command OBJ_GET_INFO_BY_FD.
    InfoByFd {
        bpf_fd: RawFd,
        info_len: u32,
        info: u64,
    }
}

/// Start of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    before: [u64; 8],
    name: [u8; NAME_LEN],
}

/// Calls bpf(2) with attributes whose pointers are valid for the command.
///
/// # Safety
/// What the attributes' pointers lead to lives until the call returns and is as large as the command reads or writes.
unsafe fn bpf<A: Attributes>(command: libc::c_int, attributes: &mut A) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads and writes as many bytes of the attributes as the size says; the caller answers for the
    // pointers in them.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<A>())
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// As [`bpf`], for a command that returns a new descriptor.
///
/// # Safety
/// As for [`bpf`].
unsafe fn bpf_fd<A: Attributes>(command: libc::c_int, attributes: &mut A) -> io::Result<OwnedFd> {
    // SAFETY: the caller answers for the pointers.
    let fd = unsafe { bpf(command, attributes) }?;
    let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: a descriptor that the kernel has just opened for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the address of what the kernel reads, and tells the compiler that it does.
fn address<T: ?Sized>(of: &T) -> u64 {
    std::ptr::from_ref(of).cast::<()>().expose_provenance() as u64
}

/// Makes a map of AF_XDP sockets by queue.
pub(super) fn make_map(name: &[u8; NAME_LEN], queues: u32) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate {
        map_type: MAP_TYPE_XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: queues,
        map_name: *name,
        ..MapCreate::default()
    };
    // SAFETY: no pointers.
    unsafe { bpf_fd(command::MAP_CREATE, &mut attributes) }
}

/// Stores the socket of a queue.
pub(super) fn set_socket(map: BorrowedFd<'_>, queue: u32, socket: RawFd) -> io::Result<()> {
    let mut attributes = MapUpdate {
        map_fd: map.as_raw_fd(),
        key: address(&queue),
        value: address(&socket),
        ..MapUpdate::default()
    };
    // SAFETY: locals of four bytes each, the sizes of the map's keys and values.
    unsafe { bpf(command::MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
}

/// Loads an XDP program.
pub(super) fn load(name: &[u8; NAME_LEN], code: &[Instruction]) -> io::Result<OwnedFd> {
    let mut attributes = ProgramLoad {
        prog_type: PROG_TYPE_XDP,
        insn_cnt: u32::try_from(code.len()).unwrap_or(u32::MAX),
        insns: address(code),
        license: address(LICENSE),
        prog_name: *name,
        ..ProgramLoad::default()
    };
    // SAFETY: as many instructions as the count says, and a string that ends with a zero; no log is asked for.
    unsafe { bpf_fd(command::PROG_LOAD, &mut attributes) }
}

/// Attaches a program to an interface until the returned descriptor is closed, or the process ends in whatever way.
pub(super) fn attach(program: BorrowedFd<'_>, interface: u32) -> io::Result<OwnedFd> {
    let mut attributes = LinkCreate {
        prog_fd: program.as_raw_fd(),
        target_ifindex: interface,
        attach_type: ATTACH_TYPE_XDP,
        flags: 0,
    };
    // SAFETY: no pointers.
    unsafe { bpf_fd(command::LINK_CREATE, &mut attributes) }
}

/// Returns the name of a program; `None` where it has none, or the process may not know.
pub(super) fn program_name(id: u32) -> Option<String> {
    let mut attributes = ProgramById { prog_id: id, ..ProgramById::default() };
    // SAFETY: no pointers.
    let program = unsafe { bpf_fd(command::PROG_GET_FD_BY_ID, &mut attributes) }.ok()?;
    let mut info = ProgramInfo::default();
    let mut attributes = InfoByFd {
        bpf_fd: program.as_raw_fd(),
        info_len: u32::try_from(size_of::<ProgramInfo>()).ok()?,
        info: std::ptr::from_mut(&mut info).expose_provenance() as u64,
    };
    // SAFETY: a local of the size that is given, of integers.
    unsafe { bpf(command::OBJ_GET_INFO_BY_FD, &mut attributes) }.ok()?;
    let name = info.name.split(|byte| *byte == 0).next()?;
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
attributes! {
    /// Attributes of the command PROG_TEST_RUN.
    TestRun {
        prog_fd: RawFd,
        retval: u32,
        data_size_in: u32,
        data_size_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
    }
}

/// Runs a program over a frame, and returns its action.
#[cfg(test)]
pub(super) fn test_run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    let mut attributes = TestRun {
        prog_fd: program.as_raw_fd(),
        data_size_in: u32::try_from(frame.len()).unwrap_or(u32::MAX),
        data_in: address(frame),
        repeat: 1,
        ..TestRun::default()
    };
    // SAFETY: as many bytes as the size says; no output is asked for.
    unsafe { bpf(command::PROG_TEST_RUN, &mut attributes) }?;
    Ok(attributes.retval)
}
