//! Network cards: the queues that datagrams arrive at, their interrupts, and the memory that they are near.

use super::facts::{HostFacts, ListenerInterface};
use super::files::{distinct, named, ranges};
use super::finding::{Fix, HostCheck, HostFinding, quoted};
use super::needs::ServedGroup;

const RSS: HostCheck = HostCheck {
    name: "rss_udp_ports",
    source: "Linux networking/scaling, RSS; ethtool(8), rx-flow-hash",
};
const IRQ: HostCheck =
    HostCheck { name: "irq_affinity", source: "Linux core-api/irq/irq-affinity; deploy/dpdk.md" };
const NUMA: HostCheck =
    HostCheck { name: "numa_node", source: "numa(7); config/example.toml, cores" };

pub(super) fn check(facts: &HostFacts<'_>) -> Vec<HostFinding> {
    let cards = facts.cards();
    if cards.is_empty() {
        let cause = "no listener has an address of a network card";
        return [RSS, IRQ, NUMA].map(|check| check.skipped("", cause)).into();
    }
    let mut found = Vec::new();
    for (group, card) in &cards {
        found.push(rss(facts, card));
        found.push(irq(facts, group, card));
        found.push(numa(facts, group, card));
    }
    found
}

/// Returns the number of receive queues of an interface.
fn queues(facts: &HostFacts<'_>, name: &str) -> usize {
    let names = facts.files.names(&format!("sys/class/net/{name}/queues"));
    names.iter().filter(|name| name.starts_with("rx-")).count()
}

fn rss(facts: &HostFacts<'_>, card: &ListenerInterface) -> HostFinding {
    let name = &card.name;
    let queues = queues(facts, name);
    if queues < 2 {
        return RSS.skipped(name, "the card has one receive queue");
    }
    let is_ipv6 = card.address.is_ipv6();
    match facts.probe.hashes_udp_ports(name, is_ipv6) {
        Ok(true) => RSS.fine(
            name,
            format!("the card spreads UDP over its {queues} queues by addresses and ports"),
        ),
        Ok(false) => {
            let family = if is_ipv6 { "udp6" } else { "udp4" };
            RSS.warning(
                name,
                format!(
                    "the card selects one of its {queues} receive queues by addresses alone, so all clients behind one address, and \
                     all of a load generator's, share a queue and its core"
                ),
                "a choice by addresses and UDP ports",
                Fix::Host(format!("ethtool -N {} rx-flow-hash {family} sdfn", quoted(name))),
            )
        }
        Err(_) => RSS.skipped(name, "the card's driver does not say how it spreads UDP"),
    }
}

/// Interrupt of a receive queue.
struct QueueInterrupt {
    number: u32,
    /// Core that handles it.
    cores: Vec<usize>,
}

/// Returns the interrupts of an interface's receive queues, by their names, which each driver makes in its own way: see
/// `deploy/host-setup`.
fn interrupts(facts: &HostFacts<'_>, name: &str) -> Vec<QueueInterrupt> {
    let folder = format!("sys/class/net/{name}/device/msi_irqs");
    // Interrupts of virtio belong to the PCI device around its own.
    let around = format!("sys/class/net/{name}/device/../msi_irqs");
    let numbers = [folder, around].into_iter().map(|folder| facts.files.names(&folder));
    let numbers = numbers.into_iter().find(|names| !names.is_empty()).unwrap_or_default();
    let numbers: Vec<u32> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    let table = facts.files.text("proc/interrupts").unwrap_or_default();
    let lines = table.lines().filter_map(|line| {
        let (number, rest) = line.trim_start().split_once(':')?;
        Some((number.parse::<u32>().ok()?, rest.split_whitespace().last()?))
    });
    let own = lines.filter(|(number, name)| numbers.contains(number) && receives(name));
    own.map(|(number, _)| {
        let list = |file: &str| facts.files.cores(&format!("proc/irq/{number}/{file}"));
        let effective = list("effective_affinity_list").ok().filter(|cores| !cores.is_empty());
        let cores = effective.or_else(|| list("smp_affinity_list").ok()).unwrap_or_default();
        QueueInterrupt { number, cores }
    })
    .collect()
}

/// Returns whether an interrupt of this name is one of a receive queue.
fn receives(name: &str) -> bool {
    // The address of a card may follow.
    let name = name.split('@').next().unwrap_or_default();
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let kind_end = kind.trim_end_matches(['-', '.', '_']).to_ascii_lowercase();
    let ends = ["rx", "rxtx", "input", "comp", "queue"];
    kind.len() < name.len() && ends.iter().any(|end| kind_end.ends_with(end))
}

/// Returns the command that gives each interrupt one of these cores in turn.
fn spread(facts: &HostFacts<'_>, interrupts: &[QueueInterrupt], cores: &[usize]) -> Fix {
    let writes = interrupts.iter().zip(cores.iter().cycle());
    let writes = writes
        .map(|(irq, core)| format!("echo {core} >/proc/irq/{}/smp_affinity_list", irq.number));
    // It would move them again.
    let is_balanced = !facts.files.processes("irqbalance").is_empty();
    let balancer = is_balanced.then(|| "systemctl disable --now irqbalance".to_owned());
    let all: Vec<String> = balancer.into_iter().chain(writes).collect();
    Fix::Host(all.join("; "))
}

fn irq(facts: &HostFacts<'_>, group: &ServedGroup<'_>, card: &ListenerInterface) -> HostFinding {
    let name = &card.name;
    let interrupts = interrupts(facts, name);
    if interrupts.iter().all(|irq| irq.cores.is_empty()) {
        return IRQ.skipped(name, "the card has no interrupts that say which core handles them");
    }
    let handling = distinct(interrupts.iter().flat_map(|i| i.cores.iter().copied()));
    let online = facts.files.online_cores();
    let taken: Vec<usize> = handling.iter().copied().filter(|c| group.cores.contains(c)).collect();
    let spare: Vec<usize> = online.iter().copied().filter(|c| !group.cores.contains(c)).collect();
    if group.group.spin_always && !taken.is_empty() && !spare.is_empty() {
        let found = format!(
            "the card interrupts {}, whose workers never pause (`spin_always`): each delays the other",
            named(&taken)
        );
        let wanted = format!("interrupts on others, such as {}", named(&spare));
        return IRQ.warning(name, found, &wanted, spread(facts, &interrupts, &spare));
    }
    if let ([core], true) = (&handling[..], interrupts.len() > 1 && online.len() > 1) {
        let found = format!(
            "all {} receive queues of the card interrupt core {core}, which bounds how many datagrams the host can take",
            interrupts.len()
        );
        let fix = spread(facts, &interrupts, &online);
        return IRQ.warning(name, found, "the queues spread over the cores", fix);
    }
    let found = format!("the receive queues of the card interrupt {}", named(&handling));
    IRQ.fine(name, found)
}

fn numa(facts: &HostFacts<'_>, group: &ServedGroup<'_>, card: &ListenerInterface) -> HostFinding {
    const NODES: &str = "sys/devices/system/node";
    let name = &card.name;
    let names = facts.files.names(NODES);
    let is_node = |name: &&String| {
        let number = name.strip_prefix("node").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    if names.iter().filter(is_node).count() < 2 {
        return NUMA.skipped(name, "the host has one NUMA node: all memory is equally near");
    }
    let node = match facts.files.value::<i32>(&format!("sys/class/net/{name}/device/numa_node")) {
        Ok(node) if node >= 0 => node,
        Ok(_) => return NUMA.skipped(name, "the card belongs to no NUMA node"),
        Err(cause) if cause.is_missing() => return NUMA.skipped(name, cause),
        Err(cause) => return NUMA.unknown(name, cause),
    };
    let near = match facts.files.cores(&format!("{NODES}/node{node}/cpulist")) {
        Ok(near) => near,
        Err(cause) => return NUMA.unknown(name, cause),
    };
    let far: Vec<usize> = group.cores.iter().copied().filter(|c| !near.contains(c)).collect();
    if far.is_empty() {
        return NUMA.fine(name, format!("the workers run on the card's NUMA node {node}"));
    }
    NUMA.warning(
        name,
        format!(
            "{} of the group {} is far from the card: what it reads of it comes from the memory of another NUMA node",
            named(&far),
            group.name()
        ),
        &format!("workers on cores of the card's NUMA node {node}"),
        Fix::Configuration(format!("cores = \"{}\" in the group {}", ranges(&near), group.name())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::FindingState::{Fine, NotApplicable, Unknown, Warning};
    use crate::doctor::scratch::{Scratch, only};

    /// Returns a host with a card of two queues and four cores.
    fn host() -> Scratch {
        let host = Scratch::new();
        host.probe().add_address("eth0", "192.0.2.2");
        for name in [
            "queues/rx-0/a",
            "queues/rx-1/a",
            "queues/tx-0/a",
            "device/msi_irqs/24",
            "device/msi_irqs/25",
            "device/msi_irqs/26",
        ] {
            host.write(&format!("sys/class/net/eth0/{name}"), "");
        }
        host.write("sys/devices/system/cpu/online", "0-3\n");
        host.write(
            "proc/interrupts",
            "           CPU0       CPU1\n 24:          0          0   PCI-MSIX-0000:00:03.0   0-edge      virtio1-config\n \
             25:   9   9   PCI-MSIX-0000:00:03.0   1-edge      virtio1-input.0\n \
             26:   9   9   PCI-MSIX-0000:00:03.0   3-edge      virtio1-input.1\nNMI: 0 0 Non-maskable interrupts\n",
        );
        host
    }

    fn find(host: &Scratch, keys: &str, name: &str) -> HostFinding {
        host.with(keys, |facts| only(check(facts), name))
    }

    #[test]
    fn a_host_without_cards_has_nothing_to_check() {
        let host = Scratch::new();
        host.probe().add_address("eth0", "192.0.2.2");
        let found = host.with("", |facts| check(facts));
        assert!(found.iter().all(|one| one.state == NotApplicable), "{found:?}");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_hash_without_ports_is_named() {
        let host = host();
        assert_eq!(find(&host, "", "rss_udp_ports").state, Fine);
        host.probe().hash(Some(false));
        let found = find(&host, "", "rss_udp_ports");
        assert_eq!(found.state, Warning);
        assert_eq!(found.fix.unwrap().text(), "ethtool -N 'eth0' rx-flow-hash udp4 sdfn");
        host.probe().hash(None);
        assert_eq!(find(&host, "", "rss_udp_ports").state, NotApplicable);
    }

    #[test]
    fn interrupts_on_one_core_or_on_those_of_workers_that_spin_are_named() {
        let host = host();
        let affinity = |first: &str, second: &str| {
            host.write("proc/irq/25/smp_affinity_list", first);
            host.write("proc/irq/26/smp_affinity_list", second);
        };
        let state = |keys: &str| find(&host, keys, "irq_affinity").state;
        assert_eq!(state(""), NotApplicable);
        affinity("0\n", "1\n");
        assert_eq!(state(""), Fine);
        affinity("2", "2");
        let found = find(&host, "", "irq_affinity");
        assert_eq!(found.state, Warning);
        assert_eq!(
            found.fix.unwrap().text(),
            "echo 0 >/proc/irq/25/smp_affinity_list; echo 1 >/proc/irq/26/smp_affinity_list"
        );
        affinity("0", "1");
        assert_eq!(state("cores = [2, 3]\nspin_always = true"), Fine);
        host.write("proc/77/comm", "irqbalance\n");
        let found = find(&host, "cores = [0, 1]\nspin_always = true", "irq_affinity");
        assert_eq!(found.state, Warning);
        let text = found.fix.unwrap().text();
        assert_eq!(
            text,
            "systemctl disable --now irqbalance; echo 2 >/proc/irq/25/smp_affinity_list; echo 3 >/proc/irq/26/smp_affinity_list"
        );
        // Where all cores spin, none is better.
        assert_eq!(state("cores = \"0-3\"\nspin_always = true"), Fine);
        // What the card uses counts more than what it may use.
        affinity("0-3", "0-3");
        host.write("proc/irq/25/effective_affinity_list", "3");
        host.write("proc/irq/26/effective_affinity_list", "3");
        assert_eq!(state(""), Warning);
        affinity("x", "99999999999999999999");
        std::fs::remove_file(host.path("proc/irq/25/effective_affinity_list")).unwrap();
        std::fs::remove_file(host.path("proc/irq/26/effective_affinity_list")).unwrap();
        assert_eq!(state(""), NotApplicable);
    }

    #[test]
    fn interrupts_of_receive_queues_are_known_by_their_names() {
        for (name, expected) in [
            ("mlx5_async0@pci:0000:03:00.0", false),
            ("mlx5_comp3@pci:0000:03:00.0", true),
            ("ena-mgmnt@pci:0000:03:00.0", false),
            ("eth1-Tx-Rx-2", true),
            ("i40e-eth1-TxRx-1", true),
            ("eth1-rxtx-2", true),
            ("eth1-tx-1", false),
            ("virtio1-output.0", false),
            ("nvme0q1", false),
            ("eth1", false),
            ("", false),
        ] {
            assert_eq!(receives(name), expected, "{name}");
        }
    }

    #[test]
    fn workers_far_from_the_card_are_named() {
        let host = host();
        let state = |keys: &str| find(&host, keys, "numa_node").state;
        assert_eq!(state(""), NotApplicable);
        host.write("sys/devices/system/node/node0/cpulist", "0-1\n");
        host.write("sys/devices/system/node/node1/cpulist", "2-3\n");
        assert_eq!(state(""), NotApplicable);
        host.write("sys/class/net/eth0/device/numa_node", "-1\n");
        assert_eq!(state(""), NotApplicable);
        host.write("sys/class/net/eth0/device/numa_node", "1\n");
        assert_eq!(state("cores = [2, 3]"), Fine);
        let found = find(&host, "cores = [1, 2]", "numa_node");
        assert!(found.state == Warning && found.found.contains("core 1 of"), "{found:?}");
        assert_eq!(found.fix.unwrap().text(), "cores = \"2-3\" in the group g");
        for nonsense in ["x", "99999999999", "7"] {
            host.write("sys/class/net/eth0/device/numa_node", nonsense);
            assert_eq!(state("cores = [2]"), Unknown, "{nonsense}");
        }
    }
}
