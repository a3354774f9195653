//! Network interfaces of the host: their addresses and MTUs.
#![expect(
    unsafe_code,
    reason = "getifaddrs and the MTU ioctl have no safe wrapper in std or socket2"
)]

use std::ffi::CStr;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

use crate::addr::{self, NAME_LEN};
use crate::batch::MAX_TRANSMIT;

/// Bytes of IP and UDP header in front of a payload.
const V4_HEADERS: usize = 28;
const V6_HEADERS: usize = 48;

/// Returns the largest UDP payload that an interface with the address of `bound` carries; for a wildcard the largest of
/// all interfaces that are up, where loopback counts only if there is no other.
pub(crate) fn largest_payload(bound: SocketAddr) -> Option<usize> {
    let headers = if bound.is_ipv4() {
        V4_HEADERS
    } else {
        V6_HEADERS
    };
    let mut best: Option<(bool, usize)> = None;
    Interfaces::list()?.visit(|interface| {
        let ip = interface.ip;
        let matches = if bound.ip().is_unspecified() {
            ip.is_ipv4() == bound.is_ipv4()
        } else {
            ip == bound.ip() || (ip.is_loopback() && bound.ip().is_loopback())
        };
        if matches && let Some(mtu) = mtu(interface.name) {
            best = best.max(Some((!ip.is_loopback(), mtu)));
        }
    });
    let (_, mtu) = best?;
    Some(MAX_TRANSMIT.min(mtu.checked_sub(headers)?))
}

/// An address of an interface that is up.
struct Interface<'a> {
    name: &'a CStr,
    ip: IpAddr,
}

/// The list of `getifaddrs(3)`.
struct Interfaces(*mut libc::ifaddrs);

impl Interfaces {
    fn list() -> Option<Self> {
        let mut first = ptr::null_mut();
        // SAFETY: writes one pointer to a local.
        let result = unsafe { libc::getifaddrs(&raw mut first) };
        (result == 0).then_some(Self(first))
    }

    fn visit(&self, mut each: impl FnMut(&Interface<'_>)) {
        let mut next = self.0;
        // SAFETY: a node of the list, which lives until `self` is dropped and which nobody changes.
        while let Some(node) = unsafe { next.as_ref() } {
            next = node.ifa_next;
            let up = node.ifa_flags & libc::IFF_UP.cast_unsigned() != 0;
            if node.ifa_addr.is_null() || node.ifa_name.is_null() || !up {
                continue;
            }
            // SAFETY: not null, and every address begins with its family.
            let family = i32::from(unsafe { (*node.ifa_addr).sa_family });
            let len = match family {
                libc::AF_INET => size_of::<libc::sockaddr_in>(),
                libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
                _ => continue,
            };
            let mut bytes = [0; NAME_LEN];
            // SAFETY: an address of this family is `len` bytes long, which fit; the two do not overlap.
            unsafe {
                ptr::copy_nonoverlapping(node.ifa_addr.cast(), bytes.as_mut_ptr(), len);
            }
            // SAFETY: a string that ends with a zero and lives as long as the list.
            let name = unsafe { CStr::from_ptr(node.ifa_name) };
            if let Some(address) = addr::decode(&bytes) {
                let ip = address.ip();
                each(&Interface { name, ip });
            }
        }
    }
}

impl Drop for Interfaces {
    fn drop(&mut self) {
        // SAFETY: allocated by `getifaddrs` and freed once, here.
        unsafe { libc::freeifaddrs(self.0) };
    }
}

/// Returns the MTU of an interface, bytes.
fn mtu(name: &CStr) -> Option<usize> {
    // Any socket will do for the question.
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    // SAFETY: integers and pointers, for which all zeroes (null) is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.to_bytes();
    if bytes.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = from.cast_signed();
    }
    // SAFETY: the request is a local with a name that ends with a zero; the kernel writes the MTU into it.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) };
    if result < 0 {
        return None;
    }
    // SAFETY: this ioctl fills this field.
    usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_carries_the_largest_datagram() {
        let largest = |address: &str| largest_payload(address.parse().unwrap());
        assert_eq!(largest("127.0.0.1:443"), Some(65_507));
        assert_eq!(largest("127.9.9.9:443"), Some(65_507));
        assert!(largest("0.0.0.0:443").is_some());
    }

    #[test]
    fn an_address_of_no_interface_has_no_mtu() {
        assert_eq!(largest_payload("192.0.2.1:1".parse().unwrap()), None);
    }
}
