//! Facts about the host that a port depends on, looked up before the library is asked, because it says less.

use std::fs;
use std::net::IpAddr;

use crate::device_port::{DevicePortOptions, PortDevice, PortError};
use crate::interface;

/// Drivers that leave a PCI device to user space, or share it (the last three).
const DRIVERS: [&str; 6] =
    ["vfio-pci", "uio_pci_generic", "igb_uio", "mlx5_core", "mlx4_core", "mana"];

/// Memory of the library itself, bytes.
const BASE: u64 = 16 << 20;
/// Size of a page that is not huge, bytes.
const PAGE: u64 = 4096;
/// Largest MTU of an interface with an XDP program: a frame lies in a page, behind 256 bytes of room and in front of the 320
/// or more that the kernel needs. Some drivers have less.
const XDP_MTU: usize = 4096 - 256 - 320 - 14;
/// Bytes that a buffer takes beside its data room: headroom, header and alignment.
const OVERHEAD: u64 = 512;
/// Buffers that the driver of AF_XDP keeps in a queue for the kernel to fill.
const AF_XDP_FILL: u32 = 2048;
/// Buffers of a queue that are not in descriptors: in bursts, and in the cache of a thread.
const SPARE: u32 = 1024;

/// Returns the number of buffers of a queue that its driver keeps: that of AF_XDP takes as many for the kernel to fill, takes
/// another for each that it received into, and returns none when it closes.
pub(super) fn kept(options: &DevicePortOptions) -> u32 {
    match options.device {
        PortDevice::AfXdp(_) => AF_XDP_FILL,
        PortDevice::AfPacket(_) | PortDevice::Pci(_) => 0,
    }
}

/// Returns the number of buffers of a queue.
pub(super) fn buffers(options: &DevicePortOptions) -> u32 {
    kept(options) + u32::from(options.rx_descriptors) + u32::from(options.tx_descriptors) + SPARE
}

/// Returns the data room of a buffer, bytes.
pub(super) fn room(options: &DevicePortOptions) -> u16 {
    if matches!(options.device, PortDevice::AfPacket(_)) {
        return packet_frame(options.mtu);
    }
    // The longest frame has a VLAN tag, and a checksum that some ports leave there.
    options.mtu.saturating_add(64).max(2048)
}

/// Returns the size of a frame in the ring of a packet socket, bytes: half a page, or whole pages, since the library takes
/// the ring for one array. A buffer must have as much room.
pub(super) fn packet_frame(mtu: u16) -> u16 {
    // In front of a frame is a header of the kernel's.
    let needed = mtu.saturating_add(128);
    match needed {
        ..=2048 => 2048,
        _ => needed.checked_next_multiple_of(4096).unwrap_or(0xf000),
    }
}

/// Returns the memory that all ports need, MiB.
pub(super) fn memory(all: &[(&DevicePortOptions, usize)]) -> u32 {
    let bytes = all.iter().map(|(options, workers)| {
        let buffer = u64::from(room(options)) + OVERHEAD;
        // A buffer does not cross a page, and without huge ones two do not fit in one.
        let buffer = if options.hugepages { buffer } else { buffer.next_multiple_of(PAGE) };
        let needed = *workers as u64 * u64::from(buffers(options)) * buffer;
        options.memory.unwrap_or(needed)
    });
    let total = BASE + bytes.sum::<u64>();
    u32::try_from(total.div_ceil(1 << 20)).unwrap_or(u32::MAX)
}

/// Checks what needs no rights: devices, their MTUs, huge pages.
pub(crate) fn examine(all: &[(&DevicePortOptions, usize)]) -> Result<(), PortError> {
    for (options, workers) in all {
        device(options)?;
        queues(&options.device, *workers)?;
        addresses(options, &interface::addresses())?;
    }
    let huge = all.iter().filter(|(options, _)| options.hugepages).count();
    if huge != 0 && huge != all.len() {
        return Err(PortError::Mixed);
    }
    if huge == 0 {
        return Ok(());
    }
    let number = |size: &str, name: &str| {
        let text = fs::read_to_string(format!("/sys/kernel/mm/hugepages/{size}/{name}"));
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    hugepages(number, u64::from(memory(all)))
}

/// Checks that a device is there and can be opened.
fn device(options: &DevicePortOptions) -> Result<(), PortError> {
    if let PortDevice::Pci(address) = &options.device {
        let driver = fs::read_link(format!("/sys/bus/pci/devices/{address}/driver"));
        let driver = driver.unwrap_or_default();
        let driver = driver.file_name().and_then(|name| name.to_str());
        if !driver.is_some_and(|driver| DRIVERS.contains(&driver)) {
            let address = address.clone();
            return Err(PortError::NoPci { address });
        }
        return Ok(());
    }
    let name = options.device.interface().unwrap_or_default();
    let Some(mtu) = interface::mtu_of(name) else {
        let name = name.to_owned();
        return Err(PortError::NoInterface { name });
    };
    if matches!(options.device, PortDevice::AfXdp(_)) && !interface::is_enabled(name) {
        let name = name.to_owned();
        return Err(PortError::Down { name });
    }
    if mtu < usize::from(options.mtu) {
        return Err(PortError::Mtu { interface: name.to_owned(), mtu, wanted: options.mtu });
    }
    if matches!(options.device, PortDevice::AfXdp(_)) && mtu > XDP_MTU {
        let interface = name.to_owned();
        return Err(PortError::XdpMtu { interface, mtu });
    }
    Ok(())
}

/// Checks that every queue of an interface of AF_XDP has a worker: the kernel would get the frames of the others.
fn queues(device: &PortDevice, workers: usize) -> Result<(), PortError> {
    let PortDevice::AfXdp(name) = device else {
        return Ok(());
    };
    match interface::queues(name) {
        Some(queues) if queues.receive != workers => {
            Err(PortError::Queues { interface: name.clone(), queues: queues.receive, workers })
        }
        _ => Ok(()),
    }
}

/// Checks that the kernel has the addresses that it shares with the port, and none that are the port's own.
fn addresses(options: &DevicePortOptions, kernel: &[(String, IpAddr)]) -> Result<(), PortError> {
    let Some(interface) = options.device.interface() else {
        return Ok(());
    };
    let shared = options.is_beside_kernel();
    for (address, prefix) in &options.addresses {
        let (address, prefix) = (*address, *prefix);
        // A shared address may be on an interface above this one, such as that of a VLAN.
        let has = |(name, ip): &(String, IpAddr)| *ip == address && (shared || name == interface);
        if kernel.iter().any(has) == shared {
            continue;
        }
        let interface = interface.to_owned();
        return Err(if shared {
            PortError::NotTheKernels { interface, address, prefix }
        } else {
            PortError::TheKernels { interface, address, prefix }
        });
    }
    Ok(())
}

/// Checks the rights of the process for a device.
pub(crate) fn rights(options: &DevicePortOptions, workers: usize) -> Result<(), PortError> {
    // Numbers of linux/capability.h.
    const NET_ADMIN: (u32, &str) = (12, "CAP_NET_ADMIN");
    const NET_RAW: (u32, &str) = (13, "CAP_NET_RAW");
    const BPF: (u32, &str) = (39, "CAP_BPF");
    const IPC_LOCK: u32 = 14;
    let needed: &[(u32, &str)] = match options.device {
        PortDevice::AfXdp(_) => &[NET_ADMIN, NET_RAW, BPF],
        // The driver sets the interface's flags.
        PortDevice::AfPacket(_) => &[NET_ADMIN, NET_RAW],
        PortDevice::Pci(_) => &[],
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = held(&status);
    let missing = needed.iter().filter(|(bit, _)| held >> bit & 1 == 0);
    let missing: Vec<&str> = missing.map(|(_, name)| *name).collect();
    if !missing.is_empty() {
        return Err(PortError::Forbidden {
            device: options.device.clone(),
            needed: missing.join(", "),
        });
    }
    if matches!(options.device, PortDevice::AfXdp(_)) && held >> IPC_LOCK & 1 == 0 {
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let needed = u64::from(memory(&[(options, workers)]));
        let limit = lockable(&limits);
        if limit < needed {
            return Err(PortError::Locked { limit, needed });
        }
    }
    Ok(())
}

/// Returns the memory that the process may lock by `/proc/self/limits`, MiB; no limit where it does not say.
fn lockable(limits: &str) -> u64 {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let soft = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    soft.map_or(u64::MAX, |bytes| bytes >> 20)
}

/// Returns the effective capabilities in `/proc/self/status`; all where it does not say.
fn held(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(u64::MAX)
}

/// Checks that so much memory is free in huge pages, MiB.
fn hugepages(number: impl Fn(&str, &str) -> u64, needed: u64) -> Result<(), PortError> {
    /// Sizes of pages, MiB. Those of the first are added.
    const SIZES: [(&str, u64); 2] = [("hugepages-2048kB", 2), ("hugepages-1048576kB", 1024)];
    let sum = |name: &str| -> u64 {
        let all = SIZES.iter().map(|(size, each)| number(size, name).saturating_mul(*each));
        all.fold(0, u64::saturating_add)
    };
    let (free, all) = (sum("free_hugepages"), sum("nr_hugepages"));
    if free >= needed {
        return Ok(());
    }
    let [(size, mebibytes), _] = SIZES;
    // Fewer than now would take pages from programs as they end.
    let pages = number(size, "nr_hugepages").saturating_add((needed - free).div_ceil(mebibytes));
    Err(PortError::Hugepages { free, used: all.saturating_sub(free), needed, pages })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_port::PortFrames;

    #[test]
    fn what_a_host_lacks_is_named_with_the_remedy() {
        let check = |options: &DevicePortOptions| examine(&[(options, 1)]).unwrap_err().to_string();
        let nowhere = DevicePortOptions::new(PortDevice::AfXdp("nowhere0".to_owned()));
        assert!(check(&nowhere).contains("no network interface `nowhere0`"));
        let card = DevicePortOptions::new(PortDevice::Pci("ffff:ff:1f.7".to_owned()));
        assert!(check(&card).contains("--bind=vfio-pci ffff:ff:1f.7"));
        let wide = DevicePortOptions::new(PortDevice::AfXdp("lo".to_owned()));
        assert!(check(&wide).contains("ip link set lo mtu 3400"));
        let mut large = DevicePortOptions::new(PortDevice::AfPacket("lo".to_owned()));
        assert_eq!(examine(&[(&large, 1)]), Ok(()));
        large.hugepages = true;
        large.memory = Some(1 << 45);
        let line = check(&large);
        assert!(line.contains("sysctl vm.nr_hugepages="), "{line}");
        let small = DevicePortOptions::new(PortDevice::AfPacket("lo".to_owned()));
        assert_eq!(examine(&[(&large, 1), (&small, 1)]), Err(PortError::Mixed));
    }

    #[test]
    fn huge_pages_that_are_missing_come_on_top_of_those_in_use() {
        // Pages of both sizes, and how many of them are free.
        let check = |small: (u64, u64), large: (u64, u64), needed| {
            let number = |size: &str, name: &str| {
                let (all, free) = if size == "hugepages-2048kB" { small } else { large };
                if name == "free_hugepages" { free } else { all }
            };
            hugepages(number, needed)
        };
        let lacks =
            |free, used, needed, pages| Err(PortError::Hugepages { free, used, needed, pages });
        assert_eq!(check((0, 0), (0, 0), 0), Ok(()));
        assert_eq!(check((0, 0), (0, 0), 129), lacks(0, 0, 129, 65));
        assert_eq!(check((512, 0), (0, 0), 128), lacks(0, 1024, 128, 576));
        assert_eq!(check((512, 0), (2, 1), 1024), Ok(()));
        assert_eq!(check((512, 0), (2, 1), 1026), lacks(1024, 2048, 1026, 513));
        let most = u64::MAX;
        assert_eq!(check((most, 0), (2, 1), 1026), lacks(1024, most - 1024, 1026, most));
    }

    #[test]
    fn an_address_is_the_kernels_beside_it_and_nobody_elses_without_it() {
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let own = |device, frames| DevicePortOptions {
            frames,
            addresses: vec![(address, 24)],
            ..DevicePortOptions::new(device)
        };
        let here = [("eth1".to_owned(), address)];
        let above = [("eth1.7".to_owned(), address)];
        let xdp = || PortDevice::AfXdp("eth1".to_owned());
        let beside = own(xdp(), PortFrames::Listeners);
        assert_eq!(addresses(&beside, &here), Ok(()));
        assert_eq!(addresses(&beside, &above), Ok(()));
        let line = addresses(&beside, &[]).unwrap_err().to_string();
        assert!(line.contains("ip addr add 192.0.2.1/24 dev eth1"), "{line}");
        let packet = PortDevice::AfPacket("eth1".to_owned());
        for alone in [own(xdp(), PortFrames::All), own(packet, PortFrames::Listeners)] {
            assert_eq!(addresses(&alone, &[]), Ok(()));
            assert_eq!(addresses(&alone, &above), Ok(()));
            let line = addresses(&alone, &here).unwrap_err().to_string();
            assert!(line.contains("ip addr del 192.0.2.1/24 dev eth1"), "{line}");
        }
        let card = own(PortDevice::Pci("0000:03:00.0".to_owned()), PortFrames::All);
        assert_eq!(addresses(&card, &here), Ok(()));
    }

    #[test]
    fn memory_is_what_all_queues_need() {
        let packet = DevicePortOptions::new(PortDevice::AfPacket("lo".to_owned()));
        let xdp = DevicePortOptions::new(PortDevice::AfXdp("lo".to_owned()));
        assert_eq!(memory(&[(&packet, 1)]), 28);
        assert_eq!(memory(&[(&packet, 2), (&xdp, 1)]), 60);
    }

    #[test]
    fn limits_of_locked_memory_are_read() {
        let limits = "Limit   Soft Limit   Hard Limit   Units\nMax locked memory   8388608   8388608   bytes\n";
        assert_eq!(lockable(limits), 8);
        let none = limits.replace("8388608", "unlimited");
        assert_eq!((lockable(&none), lockable("")), (u64::MAX, u64::MAX));
    }

    #[test]
    fn capabilities_are_read() {
        assert_eq!(held("Name:\tx\nCapEff:\t0000000000003000\n"), 0x3000);
        assert_eq!(held(""), u64::MAX);
    }
}
