//! A veth pair between two network namespaces: that of the driver under test, which is the process's own, and its peer's.
#![expect(unsafe_code, reason = "moving a thread between namespaces has no safe wrapper")]

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use sluicegate_dataplane::offloads::turn_offloads_off;

use crate::rig::Kind;
use crate::vlan;

/// Names of the pair's interfaces: at home, and in the peer's namespace.
pub(crate) const HOME: &str = "home0";
const FAR: &str = "far0";
/// Ethernet addresses of the two.
const MACS: [[u8; 6]; 2] = [[2, 0, 0x5e, 0x10, 0, 1], [2, 0, 0x5e, 0x10, 0, 2]];

/// End of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The end of the driver under test.
    Home,
    /// The end of the driver's peer.
    Far,
}

/// Properties of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Number of receive queues of each interface.
    pub(crate) queues: usize,
    pub(crate) mtu: u16,
    /// VLAN of all frames, at the driver's end.
    pub(crate) vlan: Option<u16>,
    /// Whether the peer is in that VLAN, too.
    pub(crate) peer_tags: bool,
    /// Whether each end knows the other's Ethernet address from the start.
    pub(crate) neighbors: bool,
    /// Whether the kernel has IPv6 addresses, for which it sends frames of its own.
    pub(crate) v6: bool,
}

impl Terms {
    /// One queue, Ethernet's MTU, no VLAN.
    pub(crate) const PLAIN: Self =
        Self { queues: 1, mtu: 1500, vlan: None, peer_tags: true, neighbors: true, v6: true };
}

/// A veth pair, removed when dropped.
pub(crate) struct Link {
    pub(crate) terms: Terms,
    /// Whether the kernel has the addresses at home; otherwise the driver has them.
    with_kernel: bool,
    /// Whether the driver reads frames, which must be complete.
    with_frames: bool,
    home: File,
    far: File,
}

impl End {
    fn index(self) -> u8 {
        match self {
            Self::Home => 1,
            Self::Far => 2,
        }
    }

    /// Addresses of the end: the first and the second of each family.
    pub(crate) fn addresses(self) -> [IpAddr; 4] {
        let index = self.index();
        let v4 = |last| IpAddr::V4(Ipv4Addr::new(10, 98, 0, last));
        let v6 = |last| IpAddr::V6(Ipv6Addr::new(0xfd98, 0, 0, 0, 0, 0, 0, last));
        [v4(index), v4(index + 10), v6(index.into()), v6(u16::from(index) + 0x10)]
    }

    /// Returns the address that stands for one of loopback: the first of its family for the first there, else the second.
    pub(crate) fn address(self, loopback: IpAddr) -> IpAddr {
        let [first_v4, second_v4, first_v6, second_v6] = self.addresses();
        match loopback {
            _ if loopback.is_unspecified() => loopback,
            IpAddr::V4(Ipv4Addr::LOCALHOST) => first_v4,
            IpAddr::V4(_) => second_v4,
            IpAddr::V6(Ipv6Addr::LOCALHOST) => first_v6,
            IpAddr::V6(_) => second_v6,
        }
    }

    pub(crate) fn mac(self) -> [u8; 6] {
        MACS[usize::from(self.index()) - 1]
    }

    fn interface(self) -> &'static str {
        match self {
            Self::Home => HOME,
            Self::Far => FAR,
        }
    }
}

impl Link {
    /// Makes a link for a driver of this kind.
    pub(crate) fn new(terms: Terms, kind: Kind) -> Self {
        let far = thread::spawn(|| {
            // SAFETY: takes no pointers; the thread gets a network namespace of its own.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            namespace()
        });
        let link = Self {
            terms,
            with_kernel: !kind.is_dpdk() || kind == Kind::AfXdpBesideKernel,
            with_frames: kind.is_dpdk(),
            home: namespace(),
            far: far.join().unwrap(),
        };
        sh("ip link set lo up");
        link.within(End::Far, || sh("ip link set lo up"));
        link.plug();
        link
    }

    /// Replaces the interfaces. Sockets that are bound to addresses of the link go on.
    pub(crate) fn renew(&self) {
        sh(&format!("ip link del {HOME}"));
        self.plug();
    }

    fn plug(&self) {
        let [home_mac, far_mac] = MACS.map(|mac| mac_text(&mac));
        let (mtu, count) = (self.terms.mtu, self.terms.queues);
        let count = format!("numrxqueues {count} numtxqueues {count}");
        let far = format!("/proc/{}/fd/{}", std::process::id(), self.far.as_raw_fd());
        sh(&format!(
            "ip link add {HOME} mtu {mtu} address {home_mac} {count} type veth \
             peer name {FAR} mtu {mtu} address {far_mac} {count} && \
             ip link set {FAR} netns {far}"
        ));
        self.within(End::Far, || {
            if self.with_frames {
                turn_offloads_off(FAR);
            }
            self.configure(End::Far);
        });
        if self.with_kernel {
            self.configure(End::Home);
        } else {
            // What the kernel would send of its own disturbs nobody, and is none of the test's business.
            sh(&format!(
                "echo 1 >/proc/sys/net/ipv6/conf/{HOME}/disable_ipv6 && ip link set {HOME} up"
            ));
        }
        self.await_carrier();
    }

    /// Waits until both interfaces send and the kernel takes what is for its addresses: before that it drops frames.
    fn await_carrier(&self) {
        await_true(|| self.is_ready(End::Home));
        self.within(End::Far, || await_true(|| self.is_ready(End::Far)));
    }

    /// Returns whether the interface of an end is up, in whose namespace the thread is.
    fn is_ready(&self, end: End) -> bool {
        let interface = end.interface();
        // A change waits until the kernel has done what the carrier's coming makes it do.
        let up = sh(&format!("ip link show dev {interface} && ip link set {interface} up"));
        let kernels = end == End::Far || self.with_kernel;
        let local = sh("ip -6 route show table local");
        let mut v6 = self.kernels(end).filter(|address| address.is_ipv6());
        up.contains("state UP")
            && (!kernels || v6.all(|address| local.contains(&format!("local {address} dev"))))
    }

    /// Gives the kernel the addresses of an end, in whose namespace the thread is.
    fn configure(&self, end: End) {
        let mut interface = end.interface().to_owned();
        if !self.terms.v6 {
            sh(&format!("echo 1 >/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"));
        }
        sh(&format!("ip link set {interface} up"));
        if let Some(vlan) = self.terms.vlan
            && self.terms.peer_tags
        {
            interface = vlan::enter(&interface, vlan);
        }
        for address in self.kernels(end) {
            let length = if address.is_ipv4() { "24" } else { "64 nodad" };
            sh(&format!("ip addr add {address}/{length} dev {interface}"));
        }
        if self.terms.neighbors {
            let other = end.other();
            let mac = mac_text(&other.mac());
            for address in self.kernels(other) {
                sh(&format!(
                    "ip neigh replace {address} lladdr {mac} dev {interface} nud permanent"
                ));
            }
        }
    }

    fn kernels(&self, end: End) -> impl Iterator<Item = IpAddr> {
        let v6 = self.terms.v6;
        let all = end.addresses().into_iter();
        all.filter(move |address| v6 || address.is_ipv4())
    }

    /// Calls `work` in the namespace of an end.
    pub(crate) fn within<R>(&self, end: End, work: impl FnOnce() -> R) -> R {
        if end == End::Home {
            return work();
        }
        enter(&self.far);
        let result = work();
        enter(&self.home);
        result
    }

    /// Takes the interface of the driver under test down.
    pub(crate) fn take_down(&self) {
        sh(&format!("ip link set {HOME} down"));
    }

    /// Brings it up again, and waits until the link sends.
    pub(crate) fn bring_up(&self) {
        sh(&format!("ip link set {HOME} up"));
        await_true(|| sh(&format!("ip link show dev {HOME}")).contains("state UP"));
    }
}

/// Waits for a state of the link.
fn await_true(is_there: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_there() {
            return;
        }
        thread::park_timeout(Duration::from_millis(5));
    }
    panic!("the link does not come up");
}

impl End {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Home => Self::Far,
            Self::Far => Self::Home,
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        enter(&self.home);
        // Without it the kernel removes the pair only some time after the namespace.
        let _ = Command::new("ip").args(["link", "del", HOME]).status();
    }
}

/// Returns the network namespace of the thread.
fn namespace() -> File {
    File::open("/proc/thread-self/ns/net").unwrap()
}

/// Moves the thread to a network namespace.
fn enter(namespace: &File) {
    // SAFETY: takes no pointers, and an open descriptor.
    let result = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(result, 0, "{:?}", std::io::Error::last_os_error());
}

fn mac_text(mac: &[u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

pub(crate) fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
