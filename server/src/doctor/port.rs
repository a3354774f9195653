//! Devices that DPDK drives.

use sluicegate_dataplane::{Backend, DevicePortOptions, PortDevice, PortError};

use super::facts::HostFacts;
use super::finding::{Fix, HostCheck, HostFinding};
use super::needs::ServedGroup;

const PORT: HostCheck = HostCheck { name: "dpdk_port", source: "deploy/dpdk.md" };
const RIGHTS: HostCheck =
    HostCheck { name: "dpdk_rights", source: "capabilities(7); deploy/sluicegate-dpdk.conf" };
const IOMMU: HostCheck =
    HostCheck { name: "dpdk_iommu", source: "Linux driver-api/vfio; deploy/dpdk.md" };
const HUGE: HostCheck = HostCheck {
    name: "dpdk_hugepages",
    source: "Linux admin-guide/mm/hugetlbpage; deploy/dpdk.md",
};
/// Huge pages of 2 MiB that suffice for a port with a few queues.
const MORE_PAGES: u64 = 64;

pub(super) fn check(facts: &HostFacts<'_>) -> Vec<HostFinding> {
    let groups = facts.needs.groups.iter().filter(|g| g.group.backend == Backend::Dpdk);
    let all: Vec<(&ServedGroup<'_>, DevicePortOptions)> =
        groups.filter_map(|group| Some((group, group.group.dpdk.options()?))).collect();
    if all.is_empty() {
        return vec![PORT.skipped("", "no group has the backend dpdk")];
    }
    let asked: Vec<_> = all.iter().map(|(group, options)| (options, group.cores.len())).collect();
    let mut found = Vec::new();
    let ports = facts.probe.ports(&asked);
    let lacks_pages = matches!(ports, Err(PortError::Hugepages { .. }));
    match ports {
        Ok(()) => {
            let library = facts.probe.port_library().unwrap_or_default();
            let found_all = format!("the devices, and the memory for them, are there; {library}");
            found.push(PORT.fine("", found_all));
        }
        // Then nothing else matters.
        Err(error @ PortError::LeftOut) => {
            let advice = "build the server with DPDK, or choose another backend";
            let fix = Fix::Advice(advice.to_owned());
            return vec![PORT.impossible("", error, "a server with DPDK", fix)];
        }
        Err(error @ PortError::Hugepages { free, used, needed, .. })
            if free.saturating_add(used) >= needed =>
        {
            found.push(pages_in_use(facts, &error, needed - free.min(needed)));
        }
        Err(error) => {
            let fix = fix_of(&error);
            found.push(PORT.impossible(
                "",
                error,
                "devices that DPDK can take, and memory for them, as [group.dpdk] says",
                fix,
            ));
        }
    }
    for (group, options) in &all {
        found.extend(rights(facts, group, options));
        found.push(iommu(facts, group, options));
        found.push(if lacks_pages {
            HUGE.skipped(group.name(), "dpdk_port says how many huge pages are free on the host")
        } else {
            huge(facts, group, options)
        });
    }
    found
}

/// Returns the finding where huge pages suffice, but programs hold some of those that are `missing` now, MiB.
fn pages_in_use(facts: &HostFacts<'_>, error: &PortError, missing: u64) -> HostFinding {
    let held = held(facts);
    if held >= missing {
        let found = format!(
            "the devices are there, and a running server holds {held} MiB of huge pages, which are free again when it ends"
        );
        return PORT.fine("", found);
    }
    let found = format!("{error}; if a running server holds those in use, nothing is missing");
    PORT.warning("", found, "huge pages that no other program holds", fix_of(error))
}

/// Returns the memory in huge pages that running servers hold, MiB.
fn held(facts: &HostFacts<'_>) -> u64 {
    let servers = facts.files.processes("sluicegate").into_iter().map(|number| {
        let status = facts.files.text(&format!("proc/{number}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("HugetlbPages:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.unwrap_or(0) >> 10
    });
    servers.fold(0, u64::saturating_add)
}

/// Returns the command that an error names in backquotes, or the error as advice.
fn fix_of(error: &PortError) -> Fix {
    const COMMANDS: [&str; 6] =
        ["ip addr", "ip link set", "ethtool", "sysctl", "dpdk-devbind.py", "ulimit"];
    let text = error.to_string();
    let mut quoted = text.split('`').skip(1).step_by(2);
    let command = quoted.find(|quoted| {
        COMMANDS
            .iter()
            .any(|command| quoted.strip_prefix(command).is_some_and(|r| r.starts_with(' ')))
    });
    // The name of an interface may hold what a shell would run.
    let plain = |c: char| c.is_ascii_alphanumeric() || " .:-_/=@".contains(c);
    match command.filter(|command| command.chars().all(plain)) {
        Some(command) => Fix::Host(command.to_owned()),
        None => Fix::Advice("see deploy/dpdk.md".to_owned()),
    }
}

fn rights(
    facts: &HostFacts<'_>,
    group: &ServedGroup<'_>,
    options: &DevicePortOptions,
) -> Option<HostFinding> {
    match facts.probe.port_rights(options, group.cores.len()) {
        Ok(()) => {
            Some(RIGHTS.fine(group.name(), format!("this process may open {}", options.device)))
        }
        // The check of the port says so.
        Err(PortError::LeftOut) => None,
        Err(error) => {
            let folder = "/etc/systemd/system/sluicegate.service.d";
            let fix = Fix::Host(format!(
                "install -D -m 644 deploy/sluicegate-dpdk.conf {folder}/dpdk.conf && systemctl daemon-reload"
            ));
            let found =
                format!("{error} (the user who runs doctor; the service may have other rights)");
            Some(RIGHTS.warning(group.name(), found, "these rights for the server", fix))
        }
    }
}

fn iommu(
    facts: &HostFacts<'_>,
    group: &ServedGroup<'_>,
    options: &DevicePortOptions,
) -> HostFinding {
    let PortDevice::Pci(address) = &options.device else {
        return IOMMU.skipped(group.name(), "the kernel drives the card of this device");
    };
    let driver = facts.files.link_name(&format!("sys/bus/pci/devices/{address}/driver"));
    if driver.is_some_and(|driver| driver != "vfio-pci") {
        return IOMMU.skipped(group.name(), "the card is not bound to vfio-pci");
    }
    if !facts.files.names("sys/kernel/iommu_groups").is_empty() {
        return IOMMU
            .fine(group.name(), "the host has an IOMMU, which bounds what the card can write to");
    }
    let without = facts.files.text("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    let is_allowed = without.is_ok_and(|text| matches!(text.trim(), "Y" | "1"));
    let wanted =
        "an IOMMU (intel_iommu=on or amd_iommu=on), or huge pages and vfio-pci without one";
    if is_allowed && options.hugepages {
        let found = "the host has no IOMMU: a faulty card can write to all of its memory";
        let advice =
            "switch the IOMMU on in the firmware, and boot with intel_iommu=on or amd_iommu=on";
        return IOMMU.warning(group.name(), found, wanted, Fix::Advice(advice.to_owned()));
    }
    let found = "the host has no IOMMU, so the driver vfio-pci cannot hand the card to the server";
    let advice = format!(
        "switch the IOMMU on in the firmware, and boot with intel_iommu=on or amd_iommu=on; without one, set `dpdk.hugepages` and run \
         `deploy/host-setup apply --no-iommu --pci {}`, after which the card can write to all of the host's memory",
        options.device
    );
    IOMMU.impossible(group.name(), found, wanted, Fix::Advice(advice))
}

/// Compares the huge pages of the card's NUMA node with those of others: DPDK takes memory near the card first.
fn huge(
    facts: &HostFacts<'_>,
    group: &ServedGroup<'_>,
    options: &DevicePortOptions,
) -> HostFinding {
    if !options.hugepages {
        return HUGE.skipped(group.name(), "`dpdk.hugepages` is off");
    }
    let device = match &options.device {
        PortDevice::Pci(address) => format!("sys/bus/pci/devices/{address}"),
        PortDevice::AfXdp(name) | PortDevice::AfPacket(name) => {
            format!("sys/class/net/{name}/device")
        }
    };
    let node = facts.files.value::<i32>(&format!("{device}/numa_node")).unwrap_or(-1).max(0);
    let folder = format!("sys/devices/system/node/node{node}/hugepages/hugepages-2048kB");
    let number = |name: &str| facts.files.value::<u64>(&format!("{folder}/{name}"));
    let (free, all) = match (number("free_hugepages"), number("nr_hugepages")) {
        (Ok(free), Ok(all)) => (free, all),
        (Err(cause), _) | (_, Err(cause)) => return HUGE.unknown(group.name(), cause),
    };
    if free > 0 {
        let found = format!("{free} huge pages of 2 MiB are free on NUMA node {node}");
        return HUGE.fine(group.name(), found);
    }
    let found = format!(
        "no huge page of 2 MiB is free on NUMA node {node}, the card's, and {all} are in use"
    );
    if all > 0 && held(facts) > 0 {
        let found = format!("{found}: a running server holds huge pages");
        return HUGE.fine(group.name(), found);
    }
    // Not fewer than now: those in use would be taken from their programs as these end.
    let wanted = all.saturating_add(MORE_PAGES);
    let fix = Fix::Host(format!("echo {wanted} >/{folder}/nr_hugepages"));
    HUGE.warning(group.name(), found, "huge pages near the card", fix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::FindingState::{Fine, Impossible, NotApplicable, Unknown, Warning};
    use crate::doctor::scratch::{Scratch, only};

    const XDP: &str = "backend = \"dpdk\"\n[group.dpdk]\ndevice = \"af_xdp:eth1\"\naddresses = [\"192.0.2.1/24\"]";
    const PCI: &str = "backend = \"dpdk\"\n[group.dpdk]\ndevice = \"0000:03:00.0\"\naddresses = [\"192.0.2.1/24\"]\nhugepages = true";

    fn find(host: &Scratch, keys: &str, name: &str) -> HostFinding {
        host.with(keys, |facts| only(check(facts), name))
    }

    #[test]
    fn a_device_that_lacks_something_makes_it_impossible() {
        let host = Scratch::new();
        assert_eq!(find(&host, "", "dpdk_port").state, NotApplicable);
        assert_eq!(find(&host, XDP, "dpdk_port").state, Fine);
        for (error, command) in [
            (PortError::Down { name: "eth1".to_owned() }, "ip link set eth1 up"),
            (
                PortError::Hugepages { free: 0, used: 62, needed: 64, pages: 63 },
                "sysctl vm.nr_hugepages=63",
            ),
            (PortError::Down { name: "a;reboot".to_owned() }, "see deploy/dpdk.md"),
            (PortError::LeftOut, "build the server with DPDK, or choose another backend"),
            (PortError::NoInterface { name: "eth1".to_owned() }, "see deploy/dpdk.md"),
            (
                PortError::NoPci { address: "0000:03:00.0".to_owned() },
                "dpdk-devbind.py --bind=vfio-pci 0000:03:00.0",
            ),
            (
                PortError::Queues { interface: "eth1".to_owned(), queues: 4, workers: 1 },
                "ethtool -L eth1 combined 1",
            ),
            (PortError::Locked { limit: 8, needed: 64 }, "ulimit -l unlimited"),
            (
                PortError::NotTheKernels {
                    interface: "eth1".to_owned(),
                    address: [192, 0, 2, 1].into(),
                    prefix: 24,
                },
                "ip addr add 192.0.2.1/24 dev eth1",
            ),
            (PortError::Mixed, "see deploy/dpdk.md"),
        ] {
            host.probe().refuse_ports(error);
            let found = find(&host, XDP, "dpdk_port");
            assert_eq!(found.state, Impossible);
            assert_eq!(found.fix.unwrap().text(), command);
        }
    }

    #[test]
    fn rights_are_those_of_the_user() {
        let host = Scratch::new();
        assert_eq!(find(&host, XDP, "dpdk_rights").state, Fine);
        host.probe().refuse_rights(PortError::Locked { limit: 8, needed: 64 });
        assert_eq!(find(&host, XDP, "dpdk_rights").state, Warning);
    }

    #[test]
    fn a_card_of_its_own_needs_an_iommu_or_the_word_that_it_goes_without() {
        let host = Scratch::new();
        assert_eq!(find(&host, XDP, "dpdk_iommu").state, NotApplicable);
        assert_eq!(find(&host, PCI, "dpdk_iommu").state, Impossible);
        let parameter = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
        for (text, expected) in [("N\n", Impossible), ("Y\n", Warning), ("?", Impossible)] {
            host.write(parameter, text);
            assert_eq!(find(&host, PCI, "dpdk_iommu").state, expected, "{text}");
        }
        host.write("sys/kernel/iommu_groups/0/type", "DMA");
        assert_eq!(find(&host, PCI, "dpdk_iommu").state, Fine);
        host.write("sys/bus/pci/devices/0000:03:00.0/vendor", "");
        let driver = host.path("sys/bus/pci/devices/0000:03:00.0/driver");
        std::os::unix::fs::symlink("../../drivers/mlx5_core", driver).unwrap();
        assert_eq!(find(&host, PCI, "dpdk_iommu").state, NotApplicable);
    }

    #[test]
    fn huge_pages_are_counted_near_the_card() {
        let host = Scratch::new();
        assert_eq!(find(&host, XDP, "dpdk_hugepages").state, NotApplicable);
        assert_eq!(find(&host, PCI, "dpdk_hugepages").state, Unknown);
        host.write("sys/bus/pci/devices/0000:03:00.0/numa_node", "1\n");
        let pages = |node: u8, name: &str, text: &str| {
            let folder =
                format!("sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/{name}");
            host.write(&folder, text);
        };
        pages(0, "free_hugepages", "64\n");
        pages(1, "nr_hugepages", "512\n");
        for (free, expected) in
            [("64", Fine), ("0", Warning), ("-1", Unknown), ("18446744073709551616", Unknown)]
        {
            pages(1, "free_hugepages", free);
            assert_eq!(find(&host, PCI, "dpdk_hugepages").state, expected, "{free}");
        }
        // Those in use stay.
        pages(1, "free_hugepages", "0");
        let found = find(&host, PCI, "dpdk_hugepages");
        assert!(found.found.ends_with("512 are in use"), "{found:?}");
        assert!(found.fix.unwrap().text().starts_with("echo 576 >"));
        host.write("proc/7/comm", "sluicegate\n");
        host.write("proc/7/status", "HugetlbPages:\t 1048576 kB\n");
        assert_eq!(find(&host, PCI, "dpdk_hugepages").state, Fine);
        host.write("proc/7/status", "HugetlbPages:\t many kB\n");
        assert_eq!(find(&host, PCI, "dpdk_hugepages").state, Warning);
    }

    #[test]
    fn huge_pages_that_a_running_server_holds_are_not_missing() {
        let host = Scratch::new();
        host.probe().refuse_ports(PortError::Hugepages {
            free: 8,
            used: 1016,
            needed: 64,
            pages: 540,
        });
        let found = find(&host, PCI, "dpdk_port");
        assert!(found.state == Warning && found.found.contains("1016 MiB are in use"), "{found:?}");
        assert_eq!(found.fix.unwrap().text(), "sysctl vm.nr_hugepages=540");
        // Its remedy would be less than that of the other.
        assert_eq!(find(&host, PCI, "dpdk_hugepages").state, NotApplicable);
        host.write("proc/7/comm", "sluicegate\n");
        host.write("proc/7/status", "HugetlbPages:\t 1040384 kB\n");
        assert_eq!(find(&host, PCI, "dpdk_port").state, Fine);
        host.write("proc/7/comm", "another\n");
        assert_eq!(find(&host, PCI, "dpdk_port").state, Warning);
    }
}
