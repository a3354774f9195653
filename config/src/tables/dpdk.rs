//! The port of a group whose backend is DPDK.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use sluicegate_dataplane::{DevicePortOptions, PortDevice, PortFrames};

use crate::field::words_in_fields;
use crate::schema::{GIB, Kind, MIB, Refusal, choice, count};
use crate::value::Word;
use crate::words::canonical;

table! {
    /// Port of the group above, for the backend dpdk: a network device that the workers drive themselves, beside the
    /// kernel or without it. See deploy/dpdk.md for how to choose a device and what the host needs.
    #[derive(Eq)]
    pub struct Dpdk = [group.dpdk] {
        /// Device. af_xdp takes datagrams from the queues of a network interface, which stays the kernel's; most hosts
        /// should use it. af_packet works with every interface and is slower; it is meant for development. A PCI address
        /// is that of a network card or virtual function that is bound to vfio-pci.
        device: Option<PortDevice> {
            kind: Kind::Word {
                words: "a device such as \"af_xdp:eth1\", \"af_packet:eth1\" or \"0000:03:00.0\"",
                read: |word| canonical(word.parse::<PortDevice>().ok()),
            },
            unset: "none; the backend dpdk needs one",
            examples: ["\"af_xdp:eth1\""],
            reload: Restart
        },
        /// Frames of the interface that the server takes, with af_xdp. listeners: UDP datagrams to the addresses and
        /// ports of the group's listeners, by an XDP program. The kernel gets everything else, such as ssh and ping,
        /// and must have the server's addresses. all: every frame. The addresses are then the server's alone, and the
        /// kernel gets nothing. With other devices the server always takes every frame.
        frames: Frames { kind: choice(Frames::WORDS), default: "\"listeners\"", reload: Restart },
        /// Addresses of the server on this port, each with the length of its network's prefix. With af_xdp and frames =
        /// "listeners" the kernel must have them. Otherwise the interface must not have them in the kernel, because the
        /// server itself responds to ARP, neighbor discovery and ping.
        addresses: Vec<PortAddress> {
            kind: Kind::Words {
                words: "an address with a prefix length, such as \"192.0.2.10/24\" or \"2001:db8::10/64\"",
                each: "",
                min: 1,
                max: 64,
                read: |word| canonical(word.parse::<IpNet>().ok()),
            },
            unset: "none; the backend dpdk needs one",
            examples: ["[\"192.0.2.10/24\", \"2001:db8::10/64\"]"],
            reload: Restart
        },
        /// Routers to the clients that are in none of these networks, for IPv4 and for IPv6. With af_xdp and frames =
        /// "listeners" they are optional, because the kernel knows the routes.
        gateways: Vec<IpAddr> {
            kind: Kind::Words {
                words: "an IP address",
                each: "",
                min: 1,
                max: 8,
                read: |word| canonical(word.parse::<IpAddr>().ok()),
            },
            unset: "none; replies to such clients go to the router that their frames came from",
            examples: ["[\"192.0.2.1\", \"2001:db8::1\"]"],
            reload: Restart
        },
        /// Fixed Ethernet addresses of hosts or routers. The server does not ask for these and ignores what the network
        /// says about them, so nobody on it can take their place. List routers in gateways, too.
        neighbors: Vec<PortNeighbor> {
            kind: Kind::Words {
                words: "an IP address, `=` and an Ethernet address, such as \"192.0.2.1=02:00:00:00:00:01\"",
                each: "",
                min: 1,
                max: 256,
                read: neighbor,
            },
            unset: "all are found by ARP and neighbor discovery",
            examples: ["[\"192.0.2.1=02:00:00:00:00:01\"]"],
            reload: Restart
        },
        /// VLAN whose tag all frames of the port have. Frames of others are dropped.
        vlan: Option<u16> { kind: count(1, 4094, ""), unset: "frames without a tag", examples: ["100"], reload: Restart },
        /// Largest IP packet of the network. The MTU of the interface must not be smaller, and with af_xdp not larger
        /// than about 3400.
        mtu: u16 { kind: count(1280, 9000, "bytes"), default: "1500", reload: Restart },
        /// Whether the buffers lie in huge pages, which saves CPU time. The host must reserve these. All groups with
        /// dpdk must have the same value. A PCI device needs them unless the host has an IOMMU.
        hugepages: bool { kind: Kind::Switch, default: "false", reload: Restart },
        /// Memory for the buffers of the group. auto takes what its queues need.
        memory: Option<u64> {
            kind: Kind::SizeOrAuto { min: 16 * MIB, max: 64 * GIB },
            default: "\"auto\"",
            examples: ["\"256MiB\""],
            reload: Restart
        },
        /// Frames that wait in each receive queue for a worker. Raise it if sluicegate_receive_overflows_total grows;
        /// with af_xdp and af_packet it stays 0.
        rx_descriptors: u16 { kind: count(64, 8192, "frames"), default: "1024", reload: Restart },
        /// Frames that wait in each transmit queue for the device.
        tx_descriptors: u16 { kind: count(64, 8192, "frames"), default: "1024", reload: Restart },
    }
}

words! {
    /// Frames of an interface that the server takes by AF_XDP.
    pub enum Frames {
        /// Datagrams to the listeners.
        Listeners = "listeners",
        /// Every frame.
        All = "all",
    }
}

impl Dpdk {
    /// Returns the options of the port; `None` without a device.
    pub fn options(&self) -> Option<DevicePortOptions> {
        Some(DevicePortOptions {
            device: self.device.clone()?,
            frames: match self.frames {
                Frames::Listeners => PortFrames::Listeners,
                Frames::All => PortFrames::All,
            },
            addresses: { self.addresses.iter() }
                .map(|PortAddress(net)| (net.addr(), net.prefix_len()))
                .collect(),
            gateways: self.gateways.clone(),
            neighbors: { self.neighbors.iter() }
                .map(|neighbor| (neighbor.ip, neighbor.mac))
                .collect(),
            vlan: self.vlan,
            mtu: self.mtu,
            hugepages: self.hugepages,
            memory: self.memory,
            rx_descriptors: self.rx_descriptors,
            tx_descriptors: self.tx_descriptors,
        })
    }
}

/// Address of a port, with its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAddress(pub IpNet);

/// Neighbour whose Ethernet address is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortNeighbor {
    /// IP address.
    pub ip: IpAddr,
    /// Ethernet address.
    pub mac: [u8; 6],
}

impl fmt::Display for PortAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PortNeighbor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.mac;
        let ip = self.ip;
        write!(f, "{ip}={a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl Word for PortDevice {
    fn of_canonical(word: String) -> Option<Self> {
        word.parse().ok()
    }
}

impl Word for IpAddr {
    fn of_canonical(word: String) -> Option<Self> {
        word.parse().ok()
    }
}

impl Word for PortAddress {
    fn of_canonical(word: String) -> Option<Self> {
        word.parse().ok().map(Self)
    }
}

impl Word for PortNeighbor {
    fn of_canonical(word: String) -> Option<Self> {
        let (ip, mac) = word.split_once('=')?;
        let mut bytes = [0; 6];
        let mut parts = mac.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2)?;
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        let ip = ip.trim_end().parse().ok()?;
        parts.next().is_none().then_some(Self { ip, mac: bytes })
    }
}

words_in_fields!(PortDevice, IpAddr, PortAddress, PortNeighbor);

/// Reads an IP address with an Ethernet address.
fn neighbor(word: &str) -> Result<String, Refusal> {
    canonical(PortNeighbor::of_canonical(word.replace(' ', "")))
}

#[cfg(test)]
mod tests {
    use sluicegate_cc::Registry;

    use super::*;
    use crate::Config;

    fn read(group: &str) -> Result<Config, String> {
        let text = format!(
            "[[group]]\nname = \"default\"\n{group}\n[[listener]]\nname = \"a\"\naddress = \"192.0.2.1:443\"\n\
             tls = \"self-signed\"\n"
        );
        let read = Config::from_toml("a.toml", &text, &Registry::builtin());
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn a_port_is_read_and_printed_and_a_reload_cannot_change_it() {
        let table = "backend = \"dpdk\"\n[group.dpdk]\ndevice = \"af_xdp:eth1\"\n\
                     addresses = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\ngateways = \"192.0.2.254\"\n\
                     neighbors = \"192.0.2.254 = 02:00:00:00:00:0A\"\nvlan = 7\n";
        let config = read(table).unwrap();
        let options = config.groups[0].dpdk.options().unwrap();
        assert_eq!(options.device.interface(), Some("eth1"));
        assert_eq!(options.addresses[1].1, 64);
        let gateway: IpAddr = "192.0.2.254".parse().unwrap();
        assert_eq!(options.gateways, [gateway]);
        assert_eq!(options.neighbors, [(gateway, [2, 0, 0, 0, 0, 10])]);
        assert_eq!(options.frames, PortFrames::Listeners);
        let all = read(&table.replace("vlan = 7", "frames = \"all\"")).unwrap();
        let all = all.groups[0].dpdk.options().unwrap();
        assert_eq!(all.frames, PortFrames::All);
        assert_eq!((options.vlan, options.memory), (Some(7), None));
        let printed = config.to_toml();
        let again = Config::from_toml("b.toml", &printed, &Registry::builtin());
        assert_eq!(again.unwrap().groups, config.groups, "{printed}");
        let other = read(&table.replace("vlan = 7", "vlan = 8")).unwrap();
        assert_eq!(config.needs_restart(&other), ["group.dpdk.vlan"]);
    }

    #[test]
    fn a_port_without_device_or_address_is_refused_by_name() {
        let missing = read("backend = \"dpdk\"").unwrap_err();
        assert!(missing.contains("without `dpdk.device`"), "{missing}");
        let device = "backend = \"dpdk\"\n[group.dpdk]\ndevice = \"af_packet:eth1\"";
        let missing = read(device).unwrap_err();
        assert!(missing.contains("without `dpdk.addresses`"), "{missing}");
        let wrong = read(&device.replace("af_packet:eth1", "eth1")).unwrap_err();
        assert!(wrong.contains("a device such as"), "{wrong}");
        assert_eq!(read("backend = \"mio\"").unwrap().groups[0].dpdk.options(), None);
    }
}
