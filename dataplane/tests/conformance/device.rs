//! Ports of DPDK at the end of a link.

#[cfg(not(feature = "dpdk"))]
pub(crate) use left_out::{Closing, open};
#[cfg(feature = "dpdk")]
pub(crate) use present::{Closing, open};

#[cfg(not(feature = "dpdk"))]
mod left_out {
    use std::net::SocketAddr;

    use sluicegate_dataplane::{ListenerId, Seed};

    use crate::rig::Kind;
    use crate::veth::Terms;

    pub(crate) struct Closing;

    pub(crate) fn open(
        kind: Kind,
        _: &Terms,
        _: &[(ListenerId, SocketAddr)],
        _: usize,
    ) -> Result<(Vec<Seed>, Vec<SocketAddr>, Closing), String> {
        Err(format!("{kind:?} needs a build with DPDK"))
    }
}

#[cfg(feature = "dpdk")]
mod present {
    use std::net::SocketAddr;
    use std::sync::OnceLock;
    use std::thread;

    use sluicegate_dataplane::{
        DevicePortOptions, ListenerId, PortDevice, PortFrames, PortHandle, Ports, Seed,
    };

    use crate::rig::Kind;
    use crate::veth::{End, HOME, Terms};

    /// Memory for the ports of all cases, of which AF_XDP keeps some: only what is used is taken.
    const MEMORY: u64 = 8 << 30;
    /// Descriptors of a queue.
    const DESCRIPTORS: u16 = 512;

    /// An open device, which is closed after its drivers were dropped.
    pub(crate) struct Closing {
        kind: Kind,
        port: Option<PortHandle>,
    }

    impl Drop for Closing {
        fn drop(&mut self) {
            let kept = self.port.take().and_then(PortHandle::close);
            // The driver of AF_XDP keeps what the kernel had to fill.
            if self.kind == Kind::AfPacket && !thread::panicking() {
                assert_eq!(kept, Some(0), "buffers did not come back");
            }
        }
    }

    pub(crate) fn open(
        kind: Kind,
        terms: &Terms,
        listeners: &[(ListenerId, SocketAddr)],
        workers: usize,
    ) -> Result<(Vec<Seed>, Vec<SocketAddr>, Closing), String> {
        // A process starts the library once.
        static PORTS: OnceLock<Ports> = OnceLock::new();
        let options = options(kind, terms);
        let ports = PORTS.get_or_init(|| Ports::start(&[(&options, 1)]).unwrap());
        let opened = ports.open(listeners, workers, &options);
        let opened = opened.map_err(|error| format!("{error}: {:?}", Ports::take_messages()))?;
        let addresses = opened.group.listeners.iter().map(|facts| facts.address);
        let addresses = addresses.collect();
        let port = Some(opened.port);
        Ok((opened.group.seeds, addresses, Closing { kind, port }))
    }

    fn options(kind: Kind, terms: &Terms) -> DevicePortOptions {
        let device = match kind {
            Kind::AfPacket => PortDevice::AfPacket(HOME.to_owned()),
            _ => PortDevice::AfXdp(HOME.to_owned()),
        };
        let length = |ip: &std::net::IpAddr| if ip.is_ipv4() { 24 } else { 64 };
        let far = End::Far.addresses().map(|ip| (ip, End::Far.mac()));
        DevicePortOptions {
            device,
            frames: match kind {
                Kind::AfXdpBesideKernel => PortFrames::Listeners,
                _ => PortFrames::All,
            },
            addresses: End::Home.addresses().into_iter().map(|ip| (ip, length(&ip))).collect(),
            gateways: Vec::new(),
            neighbors: if terms.neighbors { far.to_vec() } else { Vec::new() },
            vlan: terms.vlan,
            mtu: terms.mtu,
            hugepages: false,
            memory: Some(MEMORY),
            rx_descriptors: DESCRIPTORS,
            tx_descriptors: DESCRIPTORS,
        }
    }
}
