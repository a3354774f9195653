//! Ports of network devices that the process drives itself: their options, facts and errors.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

/// Device behind a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortDevice {
    /// Queues of a network interface by AF_XDP.
    AfXdp(String),
    /// A network interface by packet sockets (AF_PACKET), for development.
    AfPacket(String),
    /// A network card or virtual function of its own, by PCI address.
    Pci(String),
}

impl PortDevice {
    /// Returns the network interface of the kernel that the device is, if it is one.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::AfXdp(name) | Self::AfPacket(name) => Some(name),
            Self::Pci(_) => None,
        }
    }
}

impl fmt::Display for PortDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AfXdp(name) => write!(f, "af_xdp:{name}"),
            Self::AfPacket(name) => write!(f, "af_packet:{name}"),
            Self::Pci(address) => f.write_str(address),
        }
    }
}

/// Frames that a port of AF_XDP receives. Other devices have all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortFrames {
    /// UDP datagrams to the listeners. The kernel gets all other frames, and has the port's addresses, too.
    #[default]
    Listeners,
    /// All. The port's addresses are its own.
    All,
}

/// A text that names no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected af_xdp:INTERFACE, af_packet:INTERFACE or a PCI address such as 0000:03:00.0")]
pub struct UnknownDevice;

impl FromStr for PortDevice {
    type Err = UnknownDevice;

    fn from_str(text: &str) -> Result<Self, UnknownDevice> {
        // Interface names have up to 15 bytes; a comma would end the library's argument.
        let interface = |name: &str| {
            let plain = |b: u8| b.is_ascii_graphic() && !b"/,=".contains(&b);
            let fits = (1..=15).contains(&name.len()) && name.bytes().all(plain);
            fits.then(|| name.to_owned()).ok_or(UnknownDevice)
        };
        if let Some(name) = text.strip_prefix("af_xdp:") {
            return interface(name).map(Self::AfXdp);
        }
        if let Some(name) = text.strip_prefix("af_packet:") {
            return interface(name).map(Self::AfPacket);
        }
        let lengths = text.split([':', '.']).map(str::len);
        let digits = text.bytes().all(|b| b.is_ascii_hexdigit() || b":.".contains(&b));
        let dotted = text.get(7..8) == Some(":") && text.get(10..11) == Some(".");
        if lengths.eq([4, 2, 2, 1]) && digits && dotted {
            return Ok(Self::Pci(text.to_ascii_lowercase()));
        }
        Err(UnknownDevice)
    }
}

/// Options of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePortOptions {
    /// Device to open.
    pub device: PortDevice,
    /// Frames to receive, if it is one of AF_XDP.
    pub frames: PortFrames,
    /// Addresses of the host on this port, each with the length of its link's prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Routers to everything that is on no link.
    pub gateways: Vec<IpAddr>,
    /// Ethernet addresses of hosts that are fixed.
    pub neighbors: Vec<(IpAddr, [u8; 6])>,
    /// VLAN of all frames, if they have a tag.
    pub vlan: Option<u16>,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Whether buffers lie in huge pages.
    pub hugepages: bool,
    /// Memory to reserve, bytes; `None` for as much as the queues need.
    pub memory: Option<u64>,
    /// Descriptors of each receive queue.
    pub rx_descriptors: u16,
    /// Descriptors of each transmit queue.
    pub tx_descriptors: u16,
}

impl DevicePortOptions {
    /// Returns options of `device` without addresses, for packets as large as Ethernet's.
    #[must_use]
    pub fn new(device: PortDevice) -> Self {
        Self {
            device,
            frames: PortFrames::Listeners,
            addresses: Vec::new(),
            gateways: Vec::new(),
            neighbors: Vec::new(),
            vlan: None,
            mtu: 1500,
            hugepages: false,
            memory: None,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
        }
    }

    /// Returns whether the kernel keeps the interface and its addresses, and the port receives the listeners' datagrams only.
    #[must_use]
    pub fn is_beside_kernel(&self) -> bool {
        matches!(self.device, PortDevice::AfXdp(_)) && self.frames == PortFrames::Listeners
    }
}

/// Error of opening a port: one line with cause and remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PortError {
    /// The build has no DPDK.
    #[error(
        "this build leaves DPDK out; build with `make build DPDK=yes` (or install libdpdk-dev and use cargo's `--features dpdk`), or set \
         `backend = \"auto\"`"
    )]
    LeftOut,
    /// The interface does not exist.
    #[error("there is no network interface `{name}`; `ip link` lists them, see `dpdk.device`")]
    NoInterface {
        /// Name that was asked for.
        name: String,
    },
    /// The PCI device does not exist, or the kernel drives it.
    #[error(
        "PCI device {address} is not bound to vfio-pci; `dpdk-devbind.py --bind=vfio-pci {address}` or \
         `deploy/host-setup apply --pci {address}` does that, see deploy/dpdk.md"
    )]
    NoPci {
        /// Address that was asked for.
        address: String,
    },
    /// The interface is down.
    #[error("interface `{name}` is down; `ip link set {name} up`, see deploy/dpdk.md")]
    Down {
        /// Name of the interface.
        name: String,
    },
    /// The process may not lock enough memory.
    #[error(
        "the process may lock {limit} MiB of memory, and the buffers of the port need {needed} MiB; set \
         `LimitMEMLOCK=infinity` in the unit of systemd, or `ulimit -l unlimited` in a shell"
    )]
    Locked {
        /// Memory that the process may lock, MiB.
        limit: u64,
        /// Memory that is needed, MiB.
        needed: u64,
    },
    /// The interface carries smaller packets than configured.
    #[error(
        "interface `{interface}` has an MTU of {mtu}, below `dpdk.mtu`, which is {wanted}; lower that, or \
         `ip link set {interface} mtu {wanted}`"
    )]
    Mtu {
        /// Name of the interface.
        interface: String,
        /// MTU of the interface, bytes.
        mtu: usize,
        /// MTU that was asked for, bytes.
        wanted: u16,
    },
    /// The interface carries packets that AF_XDP cannot.
    #[error(
        "interface `{interface}` has an MTU of {mtu}, too large for AF_XDP, whose frames lie in a page; \
         `ip link set {interface} mtu 3400` and lower `dpdk.mtu`, or use `af_packet`"
    )]
    XdpMtu {
        /// Name of the interface.
        interface: String,
        /// MTU of the interface, bytes.
        mtu: usize,
    },
    /// The interface has another number of queues than the group has workers.
    #[error(
        "interface `{interface}` has {queues} receive queues and the group has {workers} workers; set \
         `ethtool -L {interface} combined {workers}`, or give the group {queues} `cores`"
    )]
    Queues {
        /// Name of the interface.
        interface: String,
        /// Number of the interface's receive queues.
        queues: usize,
        /// Workers of the group, one per core.
        workers: usize,
    },
    /// Too few huge pages are free.
    #[error(
        "{free} MiB of huge pages are free, {used} MiB are in use, and {needed} MiB are needed; \
         `sysctl vm.nr_hugepages={pages}` adds what is missing, or set `dpdk.hugepages = false`"
    )]
    Hugepages {
        /// Memory in free huge pages, MiB.
        free: u64,
        /// Memory in huge pages that programs hold, such as a server that runs, MiB.
        used: u64,
        /// Memory that the ports need, MiB.
        needed: u64,
        /// Number of huge pages that the host then has: those of now, and what is missing.
        pages: u64,
    },
    /// The process may not open such a device.
    #[error("not permitted to open {device}: the process needs {needed}, see deploy/dpdk.md")]
    Forbidden {
        /// Device that was asked for.
        device: PortDevice,
        /// Capabilities that are missing.
        needed: String,
    },
    /// Groups want different memory.
    #[error("`dpdk.hugepages` must be the same in all groups of the backend dpdk")]
    Mixed,
    /// A listener is bound to an address that the port does not have.
    #[error("{address} is not among `dpdk.addresses`; add it there, or listen on one that is")]
    Address {
        /// Address of the listener.
        address: SocketAddr,
    },
    /// The kernel does not have an address that the port shares with it.
    #[error(
        "the kernel does not have {address}, which it shares with the server; `ip addr add {address}/{prefix} dev \
         {interface}`, or give the server all frames with `dpdk.frames = \"all\"`"
    )]
    NotTheKernels {
        /// Name of the interface.
        interface: String,
        /// The address.
        address: IpAddr,
        /// Length of its network's prefix.
        prefix: u8,
    },
    /// The kernel has an address that is to be the port's own.
    #[error(
        "interface `{interface}` has {address} in the kernel, too, which would also respond for it; `ip addr del \
         {address}/{prefix} dev {interface}`, or use `af_xdp` with `dpdk.frames = \"listeners\"`"
    )]
    TheKernels {
        /// Name of the interface.
        interface: String,
        /// The address.
        address: IpAddr,
        /// Length of its network's prefix.
        prefix: u8,
    },
    /// A listener's address cannot be held in the kernel.
    #[error("bind {address}: {cause}; {remedy}")]
    Bind {
        /// Address of the listener.
        address: SocketAddr,
        /// The system's error.
        cause: String,
        /// Advice to the operator.
        remedy: &'static str,
    },
    /// The addresses or neighbours make no sense.
    #[error("`dpdk`: {0}")]
    Config(String),
    /// The library or the device refused.
    #[error("{cause}; {remedy}")]
    Library {
        /// The step that failed and its cause.
        cause: String,
        /// Advice to the operator.
        remedy: String,
    },
}

/// Facts about an open port, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// Device that was opened.
    pub device: PortDevice,
    /// Name of the driver.
    pub driver: String,
    /// Ethernet address.
    pub mac: String,
    /// Number of queue pairs.
    pub queues: usize,
    /// Whether the kernel keeps the interface, and the port receives the listeners' datagrams only.
    pub beside_kernel: bool,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Whether the port verifies checksums of received frames.
    pub rx_checksum: bool,
    /// Whether the port writes checksums of sent frames.
    pub tx_checksum: bool,
    /// Whether the port spreads frames over its queues by a hash.
    pub rss: bool,
    /// Whether buffers lie in huge pages.
    pub hugepages: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_read_back_and_others_are_refused() {
        for text in ["af_xdp:eth0", "af_packet:veth-1.5", "0000:03:00.0", "0000:af:1f.7"] {
            let device: PortDevice = text.parse().unwrap();
            assert_eq!(device.to_string(), text);
        }
        for text in [
            "",
            "eth0",
            "af_xdp:",
            "af_xdp:a,b",
            "af_packet:0123456789abcdef",
            "03:00.0",
            "0000.03.00.0",
            "0000:03:00:0",
        ] {
            assert_eq!(text.parse::<PortDevice>(), Err(UnknownDevice), "{text}");
        }
    }
}
