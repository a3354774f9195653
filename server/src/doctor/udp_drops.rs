//! Datagrams that the kernel received and had no room for.

use super::facts::HostFacts;
use super::finding::{Fix, HostCheck, HostFinding};
use super::sample::HostSample;
use super::sockets::more_room;

const DROPS: HostCheck = HostCheck {
    name: "udp_drops",
    source: "proc_net_snmp(5), RcvbufErrors; /proc/net/udp, column drops; docs/hosts.md",
};

pub(super) fn check(facts: &HostFacts<'_>) -> Vec<HostFinding> {
    if facts.socket_groups().next().is_none() {
        return vec![DROPS.skipped("", "no group receives UDP by sockets of the kernel")];
    }
    let now = HostSample::read(&facts.files);
    let mut found = vec![totals(facts, &now)];
    found.extend(own_sockets(facts, &now));
    found
}

/// Returns what gives sockets of the first group more room.
fn room(facts: &HostFacts<'_>) -> Fix {
    match facts.socket_groups().next() {
        Some(group) => more_room(facts, group),
        None => Fix::Advice("nothing for the server, which has no sockets for UDP".to_owned()),
    }
}

/// Compares the counters of the whole host.
fn totals(facts: &HostFacts<'_>, now: &HostSample) -> HostFinding {
    let (before, now) = match (&facts.before.udp, &now.udp) {
        (Ok(before), Ok(now)) => (before, now),
        (Err(cause), _) | (_, Err(cause)) => return DROPS.unknown("", cause),
    };
    let seconds = facts.elapsed.as_secs_f64();
    let grown = now.dropped.saturating_sub(before.dropped);
    let wanted = "none while the server runs: a lost datagram costs a client a round trip";
    if grown > 0 {
        let found = format!(
            "the kernel dropped {grown} received datagrams in the last {seconds:.1} s, because a program reads its socket too slowly"
        );
        return DROPS.warning("", found, wanted, room(facts));
    }
    // Drops of the past are no warning: they may be another program's, and nothing mends them.
    let (dropped, all) = (now.dropped, now.received.saturating_add(now.dropped));
    DROPS.fine(
        "",
        format!(
            "the kernel dropped no received datagram in the last {seconds:.1} s; since the host was started, {dropped} of {all}, of all \
             programs"
        ),
    )
}

/// Looks at the sockets that are bound to ports of the listeners, those of a running server.
///
/// Their counters also hold what a filter of the socket refused, such as the server's own of Initial packets, and never fall. So they
/// are a warning only while they grow, together with the counter of full buffers.
fn own_sockets(facts: &HostFacts<'_>, now: &HostSample) -> Vec<HostFinding> {
    let groups = facts.socket_groups();
    let mut ports: Vec<u16> =
        groups.flat_map(|group| group.addresses.iter().map(|address| address.port())).collect();
    ports.sort_unstable();
    ports.dedup();
    ports.retain(|port| *port != 0);
    let (before, dropped) = match (&facts.before.drops, &now.drops) {
        (Ok(before), Ok(now)) => (before, now),
        (Err(cause), _) | (_, Err(cause)) => {
            return vec![DROPS.unknown("sockets of the listeners", cause)];
        }
    };
    let overflowed = match (&facts.before.udp, &now.udp) {
        (Ok(before), Ok(now)) => now.dropped > before.dropped,
        _ => true,
    };
    let seconds = facts.elapsed.as_secs_f64();
    let found = ports.iter().filter_map(|port| {
        let drops = *dropped.get(port).filter(|drops| **drops > 0)?;
        let grown = drops.saturating_sub(before.get(port).copied().unwrap_or(0));
        let subject = format!("port {port}");
        let found = format!(
            "sockets at this port, most likely the running server's, dropped {grown} datagrams in the last {seconds:.1} s, and {drops} \
             since they were opened, among them those that the server's own filter of Initial packets refuses in a flood"
        );
        if grown == 0 || !overflowed {
            return Some(DROPS.fine(&subject, found));
        }
        let wanted = "none: raise `socket_receive_buffer` of the group, too, if the limit is high enough";
        Some(DROPS.warning(&subject, found, wanted, room(facts)))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::FindingState::{Fine, Unknown, Warning};
    use crate::doctor::scratch::Scratch;

    fn snmp(received: &str, dropped: &str) -> String {
        format!(
            "Ip: Forwarding DefaultTTL\nIp: 2 64\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\n\
             Udp: {received} 2897548 17786801 72901119 {dropped} 0\nUdpLite: InDatagrams\nUdpLite: 0\n"
        )
    }

    #[test]
    fn drops_are_told_as_growth_or_since_the_start_of_the_host() {
        for (before, now, expected, words) in [
            (("1000", "0"), ("2000", "0"), Fine, "0 of 2000, of all"),
            (
                ("1000000", "900"),
                ("2000000", "900"),
                Fine,
                "no received datagram in the last 1.0 s",
            ),
            (
                ("1000000", "900"),
                ("1000000", "902"),
                Warning,
                "dropped 2 received datagrams in the last 1.0 s",
            ),
            (("1000", "900"), ("1000", "900"), Fine, "since the host was started, 900 of 1900"),
            (("0", "0"), ("18446744073709551615", "18446744073709551615"), Warning, "in the last"),
            (("0", "0"), ("18446744073709551616", "0"), Unknown, "does not understand"),
            (("0", "0"), ("1", "many"), Unknown, "does not understand"),
            // Counters start again with the host.
            (("1000", "900"), ("10", "0"), Fine, "0 of 10"),
        ] {
            let host = Scratch::new();
            host.write("proc/net/snmp", &snmp(before.0, before.1));
            let found = host.with("", |facts| {
                host.write("proc/net/snmp", &snmp(now.0, now.1));
                check(facts).remove(0)
            });
            assert_eq!(found.state, expected, "{found:?}");
            assert!(found.found.contains(words), "{found:?}");
        }
    }

    #[test]
    fn ipv6_counts_too_and_a_host_may_have_no_counters() {
        let host = Scratch::new();
        host.write("proc/net/snmp", &snmp("10", "0"));
        host.write(
            "proc/net/snmp6",
            "Ip6InReceives  9\nUdp6InDatagrams                 \t90\nUdp6RcvbufErrors  50\n",
        );
        let found = host.with("", |facts| check(facts).remove(0));
        assert!(found.state == Fine && found.found.contains("50 of 150"), "{found:?}");
        let empty = Scratch::new();
        assert_eq!(empty.with("", |facts| check(facts).remove(0)).state, Unknown);
        for text in ["", "Udp: InDatagrams\n", "Udp: InDatagrams\nUdp: 1\n"] {
            empty.write("proc/net/snmp", text);
            assert_eq!(empty.with("", |facts| check(facts).remove(0)).state, Unknown, "{text}");
        }
    }

    #[test]
    fn drops_of_the_listeners_sockets_are_a_warning_while_buffers_overflow() {
        let line = |port: &str, drops: &str| {
            format!(
                "  1: 00000000:{port} 00000000:0000 07 00000000:00000000 00:00000000 00000000  0 0 1 2 0 {drops}\n"
            )
        };
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n";
        for (before, now, overflows, expected, words) in [
            ("7", "7", "0", Fine, "dropped 0 datagrams in the last 1.0 s, and 12 since"),
            // The filter refuses them.
            ("7", "9", "0", Fine, "dropped 2 datagrams in the last 1.0 s, and 14 since"),
            ("7", "9", "2", Warning, "dropped 2 datagrams in the last 1.0 s, and 14 since"),
            ("7", "7", "2", Fine, "dropped 0 datagrams"),
            ("7", "9", "nonsense", Warning, "dropped 2 datagrams"),
            // The server was started again.
            ("700", "9", "2", Fine, "dropped 0 datagrams in the last 1.0 s, and 14 since"),
            ("7", "18446744073709551615", "2", Warning, "and 18446744073709551615 since"),
        ] {
            let host = Scratch::new();
            let set = |drops: &str| {
                let others = [line("01BB", "5"), line("0035", "9"), line("01BB", "x")].concat();
                let text = [head, &line("01BB", drops), &others, "garbage\n"].concat();
                host.write("proc/net/udp", &text);
            };
            set(before);
            host.write("proc/net/snmp", &snmp("1", "0"));
            let found = host.with("", |facts| {
                set(now);
                host.write("proc/net/snmp", &snmp("1", overflows));
                check(facts)
            });
            let [_, own] = &found[..] else { panic!("{found:?}") };
            assert_eq!((own.state, &*own.subject), (expected, "port 443"), "{own:?}");
            assert!(own.found.contains(words), "{own:?}");
        }
    }
}
