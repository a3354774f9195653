//! Whether the kernel passes several datagrams at once, in both directions.

use sluicegate_dataplane::SocketOptions;

use super::facts::HostFacts;
use super::finding::{Fix, HostCheck, HostFinding, quoted};
use super::probe::LoopbackExchange;

const GSO: HostCheck =
    HostCheck { name: "udp_gso", source: "udp(7), UDP_SEGMENT; config/example.toml, gso" };
const GRO: HostCheck =
    HostCheck { name: "udp_gro", source: "udp(7), UDP_GRO; config/example.toml, gro" };
const INTERFACE: HostCheck =
    HostCheck { name: "udp_gso_interface", source: "udp(7), UDP_SEGMENT; dataplane/README.md" };

pub(super) fn check(facts: &HostFacts<'_>) -> Vec<HostFinding> {
    let wants = |is: fn(&SocketOptions) -> bool| facts.socket_groups().any(|g| is(&g.group.socket));
    let (gso, gro) = (wants(|options| options.gso), wants(|options| options.gro));
    let mut found = Vec::new();
    match (facts.probe.exchange(), gso || gro) {
        (_, false) => found.push(GSO.skipped("", "no group uses GSO or GRO")),
        (Err(cause), true) => {
            found.push(GSO.unknown("", format!("a datagram over loopback failed: {cause}")));
        }
        (Ok(exchange), true) => {
            found.push(if gso { sent(exchange) } else { GSO.skipped("", "`gso` is off") });
            found.push(if gro { received(exchange) } else { GRO.skipped("", "`gro` is off") });
        }
    }
    if gso {
        found.extend(interfaces(facts));
    }
    found
}

fn sent(LoopbackExchange { sent, writes, .. }: LoopbackExchange) -> HostFinding {
    if writes < sent {
        let found = format!(
            "{sent} datagrams left by {writes} system call: the kernel cuts them itself (UDP GSO)"
        );
        return GSO.fine("", found);
    }
    GSO.warning(
        "",
        format!("each of {sent} datagrams took a system call: the kernel does not cut a large write into datagrams (UDP GSO)"),
        "one system call for many datagrams, which saves CPU time; without it the server sends one by one",
        Fix::Advice("update the kernel to Linux 4.18 or newer, or allow UDP_SEGMENT in the sandbox".to_owned()),
    )
}

fn received(LoopbackExchange { sent, received, reads, .. }: LoopbackExchange) -> HostFinding {
    if received < sent {
        let found = format!(
            "of {sent} datagrams over loopback {received} arrived, so nothing is known of GRO"
        );
        return GRO.unknown("", found);
    }
    if reads < received {
        let found = format!(
            "{received} datagrams arrived in {reads} piece: the kernel merges them (UDP GRO)"
        );
        return GRO.fine("", found);
    }
    GRO.warning(
        "",
        format!("each of {received} datagrams arrived by itself: the kernel does not merge them (UDP GRO)"),
        "several datagrams of a client in one piece, which saves CPU time",
        Fix::Advice("update the kernel to Linux 5.0 or newer".to_owned()),
    )
}

fn interfaces(facts: &HostFacts<'_>) -> Vec<HostFinding> {
    let mut found: Vec<HostFinding> = Vec::new();
    for group in facts.socket_groups().filter(|group| group.group.socket.gso) {
        for interface in facts.interfaces(group) {
            if found.iter().any(|known| known.subject == interface.name) {
                continue;
            }
            found.push(interface_of(facts, &interface.name, interface.address));
        }
    }
    if found.is_empty() {
        found.push(INTERFACE.skipped("", "no listener has an address beyond loopback"));
    }
    found
}

fn interface_of(facts: &HostFacts<'_>, name: &str, address: std::net::IpAddr) -> HostFinding {
    let error = match facts.probe.batch(name, address) {
        Ok(()) => {
            let found = "the interface takes several datagrams in one write (UDP GSO)";
            return INTERFACE.fine(name, found);
        }
        Err(error) => error,
    };
    if error.raw_os_error() != Some(libc::EIO) {
        return INTERFACE.unknown(name, format!("a trial batch of datagrams was refused: {error}"));
    }
    INTERFACE.warning(
        name,
        "the interface computes no checksums, so the kernel refuses to cut a large write into datagrams (UDP GSO); the server then \
         sends them one by one, for more CPU time",
        "an interface that computes checksums, or Linux 6.11 or newer",
        Fix::Host(format!("ethtool -K {} tx on", quoted(name))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::FindingState::{Fine, NotApplicable, Unknown, Warning};
    use crate::doctor::scratch::{Scratch, only};

    #[test]
    fn one_call_for_many_datagrams_is_wanted_both_ways() {
        for (sent, writes, received, reads, gso, gro) in [
            (8, 1, 8, 1, Fine, Fine),
            (8, 8, 8, 8, Warning, Warning),
            (8, 1, 8, 8, Fine, Warning),
            (8, 1, 3, 1, Fine, Unknown),
            (u64::MAX, 1, u64::MAX, 1, Fine, Fine),
        ] {
            let host = Scratch::new();
            host.probe().exchanged(LoopbackExchange { sent, writes, received, reads });
            let found = host.with("", |facts| check(facts));
            let state = |name| only(found.clone(), name).state;
            assert_eq!((state("udp_gso"), state("udp_gro")), (gso, gro), "{found:?}");
        }
        let host = Scratch::new();
        host.probe().refuse_exchange();
        assert_eq!(host.with("", |facts| check(facts))[0].state, Unknown);
        let off = host.with("gso = false\ngro = false", |facts| check(facts));
        assert_eq!((off.len(), off[0].state), (1, NotApplicable));
    }

    #[test]
    fn interfaces_without_checksums_are_named() {
        let host = Scratch::new();
        let find = || host.with("", |facts| only(check(facts), "udp_gso_interface"));
        assert_eq!(find().state, NotApplicable);
        host.probe().add_address("lo", "127.0.0.1");
        host.probe().add_address("eth0", "fe80::1");
        assert_eq!(find().state, NotApplicable);
        host.probe().add_address("eth0", "192.0.2.2");
        assert_eq!(find().state, Fine);
        host.probe().refuse_batches(libc::EIO);
        let found = find();
        assert_eq!((found.state, &*found.subject), (Warning, "eth0"));
        assert_eq!(found.fix.unwrap().text(), "ethtool -K 'eth0' tx on");
        host.probe().add_address("a;b'c", "192.0.2.3");
        let of_all = host.with("", |facts| check(facts));
        let fix = of_all.into_iter().find(|found| found.subject == "a;b'c").unwrap().fix;
        assert_eq!(fix.unwrap().text(), r"ethtool -K 'a;b'\''c' tx on");
        host.probe().refuse_batches(libc::ENETUNREACH);
        let find = || host.with("", |facts| check(facts)).pop().unwrap();
        assert_eq!(find().state, Unknown);
    }
}
