//! Network interfaces of the host: their addresses, MTUs, queues, and how they spread datagrams.
#![expect(
    unsafe_code,
    reason = "getifaddrs and the ioctls of interfaces have no safe wrapper in std or socket2"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;

use crate::addr::{self, NAME_LEN};
use crate::batch::MAX_TRANSMIT;

/// Bytes of IP and UDP header in front of a payload.
const V4_HEADERS: usize = 28;
const V6_HEADERS: usize = 48;

/// Largest UDP payloads that the interfaces of a listener carry, as they were when the listener was opened: the MTU of an
/// interface less the headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payloads {
    /// Local addresses with the payload of their interface, bytes, in the order of the addresses.
    by_address: Arc<[(IpAddr, usize)]>,
    largest: Option<usize>,
}

impl Payloads {
    /// Reads the interfaces that have the address of `bound`; for a wildcard all that are up.
    pub(crate) fn of(bound: SocketAddr) -> Self {
        let headers = if bound.is_ipv4() { V4_HEADERS } else { V6_HEADERS };
        let mut found = Vec::new();
        let mut best: Option<(bool, usize)> = None;
        let Some(interfaces) = Interfaces::list() else {
            return Self::default();
        };
        interfaces.visit(|interface| {
            let ip = interface.ip;
            let matches = if bound.ip().is_unspecified() {
                ip.is_ipv4() == bound.is_ipv4()
            } else {
                ip == bound.ip() || (ip.is_loopback() && bound.ip().is_loopback())
            };
            if !matches {
                return;
            }
            if let Some(payload) = mtu(interface.name).and_then(|mtu| mtu.checked_sub(headers)) {
                let payload = payload.min(MAX_TRANSMIT);
                best = best.max(Some((!ip.is_loopback(), payload)));
                found.push((ip, payload));
            }
        });
        Self { largest: best.map(|(_, payload)| payload), ..found.into_iter().collect() }
    }

    /// Returns the largest payload of all interfaces, bytes, or `None` if the host does not report any. Loopback counts
    /// only if it is the only interface.
    #[must_use]
    pub fn largest(&self) -> Option<usize> {
        self.largest
    }

    /// Returns the largest payload that the interface with the address `local` carries, bytes. For an address that was on
    /// no interface it is that of all interfaces.
    #[must_use]
    pub fn at(&self, local: IpAddr) -> Option<usize> {
        // An address of several interfaces stands there several times, the largest payload last.
        let end = self.by_address.partition_point(|(ip, _)| *ip <= local);
        let last = self.by_address[..end].last();
        last.filter(|(ip, _)| *ip == local).map_or(self.largest, |(_, payload)| Some(*payload))
    }
}

/// Takes local addresses, each with the largest payload that its interface carries, bytes.
impl FromIterator<(IpAddr, usize)> for Payloads {
    fn from_iter<I: IntoIterator<Item = (IpAddr, usize)>>(payloads: I) -> Self {
        let mut by_address: Vec<_> = payloads.into_iter().collect();
        by_address.sort_unstable();
        Self {
            largest: by_address.iter().map(|(_, payload)| *payload).max(),
            by_address: by_address.into(),
        }
    }
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

/// Returns the addresses of all interfaces that are up, with the names of these.
#[must_use]
pub fn addresses() -> Vec<(String, IpAddr)> {
    let mut found = Vec::new();
    if let Some(interfaces) = Interfaces::list() {
        interfaces.visit(|interface| {
            let name = interface.name.to_string_lossy().into_owned();
            found.push((name, interface.ip));
        });
    }
    found
}

/// Returns the MTU of an interface, bytes; `None` where there is no such interface.
#[cfg(feature = "dpdk")]
pub(crate) fn mtu_of(name: &str) -> Option<usize> {
    mtu(&CString::new(name).ok()?)
}

pub(crate) fn index_of(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: reads a string that ends with a zero.
    Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|index| *index != 0)
}

/// Returns whether an interface is there, up, and has a carrier.
#[cfg(feature = "dpdk")]
pub(crate) fn is_up(name: &str) -> bool {
    has_flags(name, libc::IFF_UP | libc::IFF_RUNNING)
}

/// Returns whether an interface is there and was taken up, with a carrier or without.
#[cfg(feature = "dpdk")]
pub(crate) fn is_enabled(name: &str) -> bool {
    has_flags(name, libc::IFF_UP)
}

#[cfg(feature = "dpdk")]
fn has_flags(name: &str, wanted: i32) -> bool {
    let Ok(name) = CString::new(name) else {
        return false;
    };
    let Some(answer) = ask(&name, libc::SIOCGIFFLAGS) else {
        return false;
    };
    // SAFETY: this ioctl fills this field.
    let flags = i32::from(unsafe { answer.ifr_ifru.ifru_flags });
    flags & wanted == wanted
}

/// Queues of an interface.
#[cfg(feature = "dpdk")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queues {
    /// Number of receive queues.
    pub(crate) receive: usize,
    /// Number of those that also transmit.
    pub(crate) combined: usize,
}

/// Returns the number of queues of an interface; `None` where its driver does not say.
#[cfg(feature = "dpdk")]
pub(crate) fn queues(name: &str) -> Option<Queues> {
    /// `linux/ethtool.h`: the command, four maxima, and the counts of receive, transmit, other and combined queues.
    type Channels = [u32; 9];
    const GET_CHANNELS: u32 = 0x3c;
    const RECEIVE: usize = 5;
    const COMBINED: usize = 8;
    let mut channels: Channels = [0; 9];
    channels[0] = GET_CHANNELS;
    // SAFETY: the kernel reads and writes a structure of this size for this command.
    unsafe { ethtool(name, &mut channels) }.ok()?;
    let queues = Queues {
        receive: (channels[RECEIVE] + channels[COMBINED]) as usize,
        combined: channels[COMBINED] as usize,
    };
    (queues.receive > 0).then_some(queues)
}

/// Returns whether the hash by which a card selects the receive queue of a UDP datagram covers the ports, for IPv6 or for IPv4.
///
/// # Errors
/// There is no such interface, or its driver does not say.
pub fn hashes_udp_ports(name: &str, is_ipv6: bool) -> io::Result<bool> {
    /// `linux/ethtool.h`: `struct ethtool_rxnfc`, of which this command uses the first three fields.
    #[repr(C)]
    struct FlowHash {
        command: u32,
        flow: u32,
        fields: u64,
        unused: [u64; 24],
    }
    const GET_FLOW_HASH: u32 = 0x29;
    const UDP_V4: u32 = 2;
    const UDP_V6: u32 = 6;
    /// The four bytes of both ports.
    const PORTS: u64 = 3 << 6;
    let flow = if is_ipv6 { UDP_V6 } else { UDP_V4 };
    let mut hash = FlowHash { command: GET_FLOW_HASH, flow, fields: 0, unused: [0; 24] };
    // SAFETY: the kernel reads and writes at most a structure of this size for this command.
    unsafe { ethtool(name, &mut hash) }?;
    Ok(hash.fields & PORTS == PORTS)
}

/// Gives a command to the driver of an interface, which may write its reply there.
///
/// # Safety
/// `command` must begin with the number of a command of `linux/ethtool.h`, and be as large as what the kernel reads and writes for it.
unsafe fn ethtool<T>(name: &str, command: &mut T) -> io::Result<()> {
    let no_name = || io::Error::from(io::ErrorKind::InvalidInput);
    let name = CString::new(name).map_err(|_| no_name())?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let mut question = named(&name).ok_or_else(no_name)?;
    question.ifr_ifru.ifru_data = ptr::from_mut(command).cast();
    // SAFETY: a local with a name that ends with a zero, and a pointer to what the caller vouches for.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut question) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the MTU of an interface, bytes.
fn mtu(name: &CStr) -> Option<usize> {
    let answer = ask(name, libc::SIOCGIFMTU)?;
    // SAFETY: this ioctl fills this field.
    usize::try_from(unsafe { answer.ifr_ifru.ifru_mtu }).ok()
}

/// Asks the kernel for a property of an interface: an ioctl that reads a name and writes a number.
fn ask(name: &CStr, request: libc::Ioctl) -> Option<libc::ifreq> {
    // Any socket will do for the question.
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    let mut answer = named(name)?;
    // SAFETY: a local with a name that ends with a zero; the kernel writes a number into it.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut answer) };
    (result >= 0).then_some(answer)
}

/// Returns a question about an interface; `None` where no interface can have that name.
pub(crate) fn named(name: &CStr) -> Option<libc::ifreq> {
    // SAFETY: integers and pointers, for which all zeroes (null) is a value.
    let mut question: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.to_bytes();
    if bytes.len() >= question.ifr_name.len() {
        return None;
    }
    for (to, from) in question.ifr_name.iter_mut().zip(bytes) {
        *to = from.cast_signed();
    }
    Some(question)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_carries_the_largest_datagram() {
        let payloads = |address: &str| Payloads::of(address.parse().unwrap());
        assert_eq!(payloads("127.0.0.1:443").largest(), Some(65_507));
        assert_eq!(payloads("127.9.9.9:443").largest(), Some(65_507));
        let all = payloads("0.0.0.0:443");
        assert!(all.largest().is_some());
        assert_eq!(all.at("127.0.0.1".parse().unwrap()), Some(65_507));
        assert_eq!(all.at("192.0.2.1".parse().unwrap()), all.largest());
    }

    #[test]
    fn loopback_is_listed_and_has_no_card_to_ask() {
        assert!(addresses().contains(&("lo".to_owned(), [127, 0, 0, 1].into())));
        for name in ["lo", "nowhere0", "a name that no interface can have", "\0"] {
            assert!(hashes_udp_ports(name, false).is_err(), "{name}");
        }
    }

    #[test]
    fn an_address_of_no_interface_has_no_mtu() {
        let nowhere: SocketAddr = "192.0.2.1:1".parse().unwrap();
        assert_eq!(Payloads::of(nowhere).at(nowhere.ip()), None);
    }
}
