//! Offloads of a veth, which leaves checksums and segmentation to a card that is not there. For tests.
#![expect(
    unsafe_code,
    reason = "offloads of an interface are turned off by an ioctl that has no safe wrapper"
)]

use std::ffi::CString;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use crate::interface::named;

/// Has the kernel write checksums and VLAN tags into the frames of an interface, and cut them to size, before they leave.
/// What is left to a card that is not there, as at the end of a veth, would arrive wrong at a driver of frames.
///
/// # Panics
/// There is no such interface, or the process has no right to change it.
pub fn turn_offloads_off(interface: &str) {
    // `linux/ethtool.h`: the command, and zero for "off".
    const SET_TX_CHECKSUMS: u32 = 0x17;
    const SET_FLAGS: u32 = 0x26;
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let name = CString::new(interface).expect("a name without zeroes");
    for command in [SET_TX_CHECKSUMS, SET_FLAGS] {
        let mut command = [command, 0];
        let mut request = named(&name).expect("a short name");
        request.ifr_ifru.ifru_data = (&raw mut command).cast();
        // SAFETY: a local with a name that ends with a zero and a pointer to a local of the command's size.
        let result =
            unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        let error = io::Error::last_os_error();
        assert_eq!(result, 0, "offloads of {interface}: {error}");
    }
}
