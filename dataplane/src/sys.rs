//! System calls on sockets: the only unsafe code outside the drivers' rings.
#![expect(
    unsafe_code,
    reason = "recvmmsg, sendmsg with control messages, and the options for filters have no safe wrapper in std, socket2 or rustix"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::addr::{NAME_LEN, NAME_SOCKLEN};
use crate::control::CONTROL_LEN;
use crate::message::Message;

/// Size of a receive buffer: no datagram and no GRO batch is longer.
pub(crate) const RX_BUFFER: usize = 64 << 10;

/// Socket option of include/uapi/asm-generic/socket.h, which the crate libc lacks.
const SO_MEMINFO: i32 = 55;
/// Place of the count of dropped datagrams among the figures of [`SO_MEMINFO`].
const DROPS: usize = 8;

/// Sets an option whose value is an `int`.
pub(crate) fn set_int(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    set(fd, level, name, &value)
}

/// Returns the kernel's count of datagrams that a socket has dropped, if it tells.
pub(crate) fn drops(fd: BorrowedFd<'_>) -> Option<u32> {
    let mut figures = [0_u32; DROPS + 1];
    let mut len = libc::socklen_t::try_from(size_of_val(&figures)).ok()?;
    // SAFETY: `figures` is valid for writes of `len` bytes for the length of the call, and the kernel keeps no pointer.
    let result = unsafe {
        let value = figures.as_mut_ptr().cast();
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, SO_MEMINFO, value, &raw mut len)
    };
    check(result).ok()?;
    let is_whole = usize::try_from(len).is_ok_and(|len| len == size_of_val(&figures));
    is_whole.then_some(figures[DROPS])
}

/// Attaches a classic BPF program that picks the socket of a SO_REUSEPORT group.
pub(crate) fn attach_reuseport_cbpf(
    fd: BorrowedFd<'_>,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    attach(fd, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

/// Attaches a classic BPF program that decides which packets the socket takes, in place of the one before.
pub(crate) fn attach_filter(fd: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    attach(fd, libc::SO_ATTACH_FILTER, program)
}

/// Detaches the program that decides which packets the socket takes, if there is one.
pub(crate) fn detach_filter(fd: BorrowedFd<'_>) -> io::Result<()> {
    match set_int(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        result => result,
    }
}

fn attach(fd: BorrowedFd<'_>, option: i32, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog {
        len,
        // The kernel only reads it.
        filter: program.as_ptr().cast_mut(),
    };
    set(fd, libc::SOL_SOCKET, option, &program)
}

fn set<T>(fd: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of::<T>()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `value` is valid for reads of `len` bytes for the length of the call, and the kernel keeps no pointer.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(value).cast(), len) };
    check(result).map(drop)
}

/// Waits until a descriptor is readable, for `limit` at most. Returns whether it is. A signal may end it early.
#[cfg(feature = "dpdk")]
pub(crate) fn await_readable(fd: BorrowedFd<'_>, limit: std::time::Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let limit = Timespec::try_from(limit).ok();
    let mut watched = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    match poll(&mut watched, limit.as_ref()) {
        Err(error) if error != rustix::io::Errno::INTR => Err(error.into()),
        result => Ok(result.is_ok_and(|ready| ready > 0)),
    }
}

/// Sends one message, without waiting.
pub(crate) fn send(
    fd: BorrowedFd<'_>,
    name: &[u8],
    control: &[u8],
    payload: &[u8],
) -> io::Result<usize> {
    let mut iov =
        libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
    let header = message(name, control, &mut iov)?;
    // SAFETY: every pointer in `header` comes from a slice or local alive for the length of the call, with its
    // length; sendmsg only reads through them.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Makes a message header for sending; its user keeps the slices and `iov` alive.
pub(crate) fn message(
    name: &[u8],
    control: &[u8],
    iov: *mut libc::iovec,
) -> io::Result<libc::msghdr> {
    // SAFETY: integers and pointers, for which all zeroes (null) is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = name.as_ptr().cast_mut().cast();
    header.msg_namelen = u32::try_from(name.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    header.msg_iov = iov;
    header.msg_iovlen = 1;
    if !control.is_empty() {
        header.msg_control = control.as_ptr().cast_mut().cast();
        header.msg_controllen = control.len() as _;
    }
    Ok(header)
}

/// Room for the control messages of one message.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct ControlRoom([u8; CONTROL_LEN]);

/// Buffers for one `recvmmsg`.
pub(crate) struct Messages {
    payloads: Box<[u8]>,
    names: Box<[[u8; NAME_LEN]]>,
    controls: Box<[ControlRoom]>,
    iovs: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

impl Messages {
    pub(crate) fn new(buffers: usize) -> Self {
        let iov = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        // SAFETY: integers and pointers, for which all zeroes (null) is a value.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Self {
            payloads: vec![0; buffers * RX_BUFFER].into_boxed_slice(),
            names: vec![[0; NAME_LEN]; buffers].into_boxed_slice(),
            controls: vec![ControlRoom([0; CONTROL_LEN]); buffers].into_boxed_slice(),
            iovs: vec![iov; buffers].into_boxed_slice(),
            headers: vec![header; buffers].into_boxed_slice(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.headers.len()
    }

    /// Receives up to `limit` messages without waiting and returns how many there are.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>, limit: usize) -> io::Result<usize> {
        let limit = limit.min(self.len());
        let payloads = self.payloads.chunks_exact_mut(RX_BUFFER);
        let rooms = payloads.zip(&mut self.names).zip(&mut self.controls);
        let slots = self.headers.iter_mut().zip(&mut self.iovs).zip(rooms);
        for ((header, iov), ((payload, name), control)) in slots.take(limit) {
            iov.iov_base = payload.as_mut_ptr().cast();
            iov.iov_len = payload.len();
            let header = &mut header.msg_hdr;
            header.msg_name = name.as_mut_ptr().cast();
            header.msg_namelen = NAME_SOCKLEN;
            header.msg_iov = iov;
            header.msg_iovlen = 1;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_LEN as _;
        }
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 16 buffers")]
        let count = limit as u32;
        // SAFETY: the first `count` headers point to distinct buffers owned by `self` with their lengths (set above),
        // and `self` is borrowed exclusively for the length of the call; the kernel keeps no pointer.
        let received = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// Returns the message at `index`, below what [`Messages::receive`] returned last.
    #[allow(clippy::unnecessary_cast, reason = "with musl msg_controllen is a socklen_t")]
    pub(crate) fn message(&mut self, index: usize) -> Message<'_> {
        let header = &self.headers[index];
        let name = (header.msg_hdr.msg_namelen as usize).min(NAME_LEN);
        let control = (header.msg_hdr.msg_controllen as usize).min(CONTROL_LEN);
        let payload = (header.msg_len as usize).min(RX_BUFFER);
        let start = index * RX_BUFFER;
        Message {
            name: &self.names[index][..name],
            control: &self.controls[index].0[..control],
            payload: &mut self.payloads[start..start + payload],
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        }
    }
}

/// Returns a system call's result, or its error where it is negative.
pub(crate) fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
