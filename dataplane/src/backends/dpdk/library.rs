//! The library's start, and the opening of ports.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sluicegate_dpdk::{
    Device, Eal, EalOptions, Port, PortOptions, XdpFrames, XdpOptions, headroom,
};
use sluicegate_frames::{MAX_HEADERS, MacAddr, PortConfig};

use super::driver::now;
use super::host;
use super::kernel::KernelSockets;
use super::seed::DpdkSeed;
use super::shared::Shared;
use crate::addr::covers;
use crate::device_port::{DevicePortOptions, PortDevice, PortError, PortFacts, PortFrames};
use crate::group::ListenerFacts;
use crate::interface;
use crate::meta::ListenerId;

/// First port that is chosen for port 0.
const FIRST_PORT: u16 = 49_152;

/// The running library.
#[derive(Debug)]
pub(crate) struct Library {
    eal: Eal,
}

/// An open port of the library.
#[derive(Debug)]
pub(crate) struct OpenPort(Port);

/// A port with its workers' shares.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) seeds: Vec<DpdkSeed>,
    pub(crate) listeners: Vec<ListenerFacts>,
    pub(crate) facts: PortFacts,
    pub(crate) port: OpenPort,
}

impl OpenPort {
    /// Closes the port. Returns the number of buffers that did not come back, or `None` where it is in use.
    pub(crate) fn close(self) -> Option<u32> {
        self.0.close().ok()
    }
}

impl Library {
    /// Starts the library with memory for these ports.
    pub(crate) fn start(all: &[(&DevicePortOptions, usize)]) -> Result<Self, PortError> {
        host::examine(all)?;
        for (options, workers) in all {
            host::rights(options, *workers)?;
        }
        let pci = all.iter().filter_map(|(options, _)| match &options.device {
            PortDevice::Pci(address) => Some(address.clone()),
            _ => None,
        });
        let options = EalOptions {
            memory: host::memory(all),
            hugepages: all.iter().any(|(options, _)| options.hugepages),
            pci: pci.collect(),
        };
        let eal = Eal::start(&options).map_err(|e| refused(e, None))?;
        Ok(Self { eal })
    }

    /// Opens a port with a queue per worker.
    pub(crate) fn open(
        &self,
        listeners: &[(ListenerId, SocketAddr)],
        workers: usize,
        options: &DevicePortOptions,
    ) -> Result<Opened, PortError> {
        let listeners = resolve(listeners, options)?;
        let mut config = config(options);
        // Before the device is touched; its own address comes later.
        config.check().map_err(|e| PortError::Config(e.to_string()))?;
        let destinations = destinations(&listeners, options);
        let kernel = if options.is_beside_kernel() {
            Some(KernelSockets::bind(&destinations, config.scope_id)?)
        } else {
            None
        };
        let (port, queues) = Port::open(&self.eal, &port_options(options, workers, destinations))
            .map_err(|e| refused(e, options.device.interface()))?;
        let facts = port.facts();
        config.mac = MacAddr(facts.mac);
        let facts = PortFacts {
            device: options.device.clone(),
            driver: facts.driver.clone(),
            mac: config.mac.to_string(),
            queues: workers,
            beside_kernel: options.is_beside_kernel(),
            mtu: options.mtu,
            rx_checksum: facts.rx_checksum,
            tx_checksum: facts.tx_checksum,
            rss: facts.rss,
            hugepages: options.hugepages,
        };
        let interface = options.device.interface();
        let shared =
            Shared::new(config, interface, listeners.clone(), facts.tx_checksum, kernel, now());
        let shared = Arc::new(shared);
        let seeds = queues.into_iter().enumerate();
        let seeds = seeds.map(|(index, queue)| DpdkSeed::new(queue, Arc::clone(&shared), index));
        Ok(Opened {
            seeds: seeds.collect(),
            listeners: { listeners.iter() }
                .map(|(id, address)| listener_facts(*id, *address, options))
                .collect(),
            facts,
            port: OpenPort(port),
        })
    }
}

/// Returns the listeners with a port number for each that asked for any. Their addresses are ones of the port.
fn resolve(
    listeners: &[(ListenerId, SocketAddr)],
    options: &DevicePortOptions,
) -> Result<Vec<(ListenerId, SocketAddr)>, PortError> {
    let mut taken: BTreeSet<u16> = listeners.iter().map(|(_, at)| at.port()).collect();
    let mut resolved = Vec::with_capacity(listeners.len());
    for (id, address) in listeners {
        let own = |(ip, _): &&(IpAddr, u8)| {
            *ip == address.ip()
                || (address.ip().is_unspecified() && ip.is_ipv4() == address.is_ipv4())
        };
        if !options.addresses.iter().any(|own_address| own(&own_address)) {
            return Err(PortError::Address { address: *address });
        }
        let mut address = *address;
        if address.port() == 0 {
            let free = (FIRST_PORT..=u16::MAX).find(|port| !taken.contains(port));
            address.set_port(free.unwrap_or(FIRST_PORT));
            taken.insert(address.port());
        }
        resolved.push((*id, address));
    }
    Ok(resolved)
}

/// Returns what clients may send to: the addresses and ports of the listeners, wildcards replaced by the port's addresses.
fn destinations(
    listeners: &[(ListenerId, SocketAddr)],
    options: &DevicePortOptions,
) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for (_, bound) in listeners {
        let own = options.addresses.iter();
        let own = own.map(|(ip, _)| SocketAddr::new(*ip, bound.port()));
        found.extend(own.filter(|address| covers(bound, address)));
    }
    found
}

/// Returns what the frames of a port depend on; the Ethernet address is still to come.
fn config(options: &DevicePortOptions) -> PortConfig {
    let index = options.device.interface().and_then(interface::index_of);
    PortConfig {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        vlan: options.vlan,
        mtu: usize::from(options.mtu),
        addresses: options.addresses.clone(),
        gateways: options.gateways.clone(),
        neighbors: options.neighbors.iter().map(|(ip, mac)| (*ip, MacAddr(*mac))).collect(),
        scope_id: index.unwrap_or(1),
    }
}

fn port_options(
    options: &DevicePortOptions,
    workers: usize,
    destinations: Vec<SocketAddr>,
) -> PortOptions {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    debug_assert!(headroom() >= MAX_HEADERS);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let devices = match &options.device {
        PortDevice::Pci(address) => vec![Device::Pci(address.clone())],
        PortDevice::AfPacket(interface) => {
            let frame = host::packet_frame(options.mtu);
            let block = frame.max(4096);
            let count = options.rx_descriptors.next_power_of_two();
            vec![Device::Virtual {
                name: format!("net_af_packet_{number}"),
                arguments: format!(
                    ",iface={interface},qpairs={workers},qdisc_bypass=1,framesz={frame},blocksz={block},framecnt={count}"
                ),
            }]
        }
        PortDevice::AfXdp(interface) => {
            // A device per queue where the library sees too few: it counts combined queues only.
            let combined = interface::queues(interface).map_or(0, |queues| queues.combined);
            let of_device = if combined >= workers { workers } else { 1 };
            (0..workers)
                .step_by(of_device)
                .map(|queue| Device::Virtual {
                    name: format!("net_af_xdp_{number}_{queue}"),
                    arguments: format!(
                        ",iface={interface},start_queue={queue},queue_count={of_device},busy_budget=0"
                    ),
                })
                .collect()
        }
    };
    let xdp = match &options.device {
        PortDevice::AfXdp(interface) => Some(XdpOptions {
            interface: interface.clone(),
            frames: match options.frames {
                PortFrames::Listeners => {
                    XdpFrames::Datagrams { vlan: options.vlan, to: destinations }
                }
                PortFrames::All => XdpFrames::All,
            },
        }),
        PortDevice::AfPacket(_) | PortDevice::Pci(_) => None,
    };
    let is_pci = matches!(options.device, PortDevice::Pci(_));
    PortOptions {
        devices,
        xdp,
        queues: u16::try_from(workers).unwrap_or(u16::MAX),
        rx_descriptors: options.rx_descriptors,
        tx_descriptors: options.tx_descriptors,
        buffers: host::buffers(options),
        kept: host::kept(options),
        room: host::room(options),
        // The kernel's interface has its own.
        mtu: is_pci.then_some(options.mtu),
        multicast: !options.is_beside_kernel()
            && options.addresses.iter().any(|(ip, _)| ip.is_ipv6()),
    }
}

fn listener_facts(
    id: ListenerId,
    address: SocketAddr,
    options: &DevicePortOptions,
) -> ListenerFacts {
    let headers = if address.is_ipv4() { 28 } else { 48 };
    let payload = usize::from(options.mtu) - headers;
    let room = usize::from(host::room(options));
    let of_family = options.addresses.iter().map(|(ip, _)| *ip);
    let of_family = of_family.filter(|ip| ip.is_ipv4() == address.is_ipv4());
    ListenerFacts {
        listener: id,
        address,
        receive_buffer: usize::from(options.rx_descriptors) * room,
        send_buffer: usize::from(options.tx_descriptors) * room,
        gso: false,
        gro: false,
        payloads: of_family.map(|ip| (ip, payload)).collect(),
    }
}

/// Returns an error of the library with advice.
fn refused(error: sluicegate_dpdk::Error, interface: Option<&str>) -> PortError {
    let remove = format!(
        "stop its owner, or remove it with `ip link set dev {} xdp off`",
        interface.unwrap_or_default()
    );
    let remedy = match error.errno {
        libc::EEXIST => &remove,
        libc::EBUSY => "stop the process that has the device",
        libc::ENOMEM => {
            "raise `dpdk.memory`, or the limit of locked memory (LimitMEMLOCK=infinity)"
        }
        // The driver of AF_XDP says no more.
        _ if error.cause.contains("configure xdp socket") => {
            "raise the limit of locked memory (LimitMEMLOCK=infinity), or stop the process that has the queues of the \
             interface (`ss --xdp -p`); its driver may have no XDP"
        }
        _ if error.step == "queues of the port" => {
            "give the group fewer `cores`, or the device more queues (`ethtool -L`)"
        }
        _ => "see `dpdk.device` and deploy/dpdk.md",
    };
    PortError::Library { cause: error.to_string(), remedy: remedy.to_owned() }
}
