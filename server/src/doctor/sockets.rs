//! Buffers of sockets, the program that steers datagrams to workers, and polling of the network card.

use sluicegate_dataplane::{Backend, ListenerFacts, SocketOptions};

use super::facts::HostFacts;
use super::finding::{Fix, HostCheck, HostFinding};
use super::kernel::release;
use super::needs::ServedGroup;

const BUFFERS: HostCheck = HostCheck {
    name: "socket_buffers",
    source: "Linux admin-guide/sysctl/net, rmem_max and wmem_max; deploy/README.md",
};
const STEERING: HostCheck =
    HostCheck { name: "reuseport_bpf", source: "socket(7), SO_ATTACH_REUSEPORT_CBPF" };
const BUSY_POLL: HostCheck = HostCheck {
    name: "busy_poll",
    source: "Linux admin-guide/sysctl/net, busy_poll; config/example.toml, busy_poll",
};

pub(super) fn check(facts: &HostFacts<'_>) -> Vec<HostFinding> {
    let mut found = Vec::new();
    for group in facts.socket_groups() {
        found.push(buffers(facts, group));
        found.push(steering(facts, group));
        found.push(busy_poll(facts, group));
    }
    found
}

/// Returns whether a buffer is smaller than asked for. It is 0 where the kernel does not say.
pub(crate) fn is_cut(granted: &ListenerFacts, wanted: &SocketOptions) -> bool {
    (1..wanted.receive_buffer).contains(&granted.receive_buffer)
        || (1..wanted.send_buffer).contains(&granted.send_buffer)
}

/// Returns what lets sockets have the buffers that are configured.
pub(crate) fn raise_buffers(wanted: &SocketOptions) -> Fix {
    Fix::Sysctls(vec![
        ("net.core.rmem_max", wanted.receive_buffer.to_string()),
        ("net.core.wmem_max", wanted.send_buffer.to_string()),
    ])
}

/// Returns what gives sockets of a group more room: only what is below what is wanted, so that nothing is lowered.
pub(super) fn more_room(facts: &HostFacts<'_>, group: &ServedGroup<'_>) -> Fix {
    let Fix::Sysctls(all) = raise_buffers(&group.group.socket) else {
        return larger(group);
    };
    let is_short = |(key, wanted): &(&str, String)| {
        let file = format!("proc/sys/{}", key.replace('.', "/"));
        let now = facts.files.value::<u64>(&file);
        now.map_or(true, |now| wanted.parse().is_ok_and(|wanted: u64| now < wanted))
    };
    let short: Vec<_> = all.into_iter().filter(is_short).collect();
    if short.is_empty() { larger(group) } else { Fix::Sysctls(short) }
}

fn larger(group: &ServedGroup<'_>) -> Fix {
    Fix::Configuration(format!("a larger `socket_receive_buffer` in the group {}", group.name()))
}

fn buffers(facts: &HostFacts<'_>, group: &ServedGroup<'_>) -> HostFinding {
    let options = &group.group.socket;
    let granted = match facts.probe.sockets(options, 1) {
        Ok(granted) => granted,
        Err(error) => return BUFFERS.unknown(group.name(), error),
    };
    let wanted = format!(
        "{} to receive and {} to send, as `socket_receive_buffer` and `socket_send_buffer` of the group say",
        size(options.receive_buffer),
        size(options.send_buffer)
    );
    let pair = |receive: usize, send: usize| {
        format!("{} to receive and {} to send", size(receive), size(send))
    };
    let sizes = pair(granted.receive_buffer, granted.send_buffer);
    if is_cut(&granted, options) {
        let found = format!(
            "the kernel grants a socket {sizes}; datagrams of a burst that do not fit are lost"
        );
        return BUFFERS.warning(group.name(), found, &wanted, more_room(facts, group));
    }
    // With CAP_NET_ADMIN, as root has it, a socket gets what it asks for.
    let limit = |name: &str| facts.files.value::<usize>(&format!("proc/sys/net/core/{name}"));
    match (limit("rmem_max"), limit("wmem_max")) {
        (Ok(receive), Ok(send))
            if receive < options.receive_buffer || send < options.send_buffer =>
        {
            let least = pair(receive.min(options.receive_buffer), send.min(options.send_buffer));
            let found = format!(
                "sockets of the user who runs doctor get {sizes}, but those of a user without CAP_NET_ADMIN, such as the \
                 service's, get {least}; datagrams of a burst that do not fit are lost"
            );
            BUFFERS.warning(group.name(), found, &wanted, more_room(facts, group))
        }
        _ => BUFFERS.fine(group.name(), format!("a socket gets {sizes}")),
    }
}

fn steering(facts: &HostFacts<'_>, group: &ServedGroup<'_>) -> HostFinding {
    let workers = group.cores.len();
    if workers < 2 {
        return STEERING.skipped(group.name(), "the group has one worker");
    }
    match facts.probe.sockets(&group.group.socket, workers) {
        Ok(_) => STEERING.fine(
            group.name(),
            format!("the kernel brings each datagram to its worker, one of {workers}"),
        ),
        Err(error) => STEERING.impossible(
            group.name(),
            format!("sockets for {workers} workers that share a port cannot be opened: {error}"),
            "a kernel that takes a BPF program to choose among the sockets of a port (Linux 4.5)",
            Fix::Configuration(format!("one core in `cores` of the group {}", group.name())),
        ),
    }
}

fn busy_poll(facts: &HostFacts<'_>, group: &ServedGroup<'_>) -> HostFinding {
    const LIMIT: &str = "net.core.busy_poll";
    let micros = group.group.socket.busy_poll;
    if micros == 0 {
        return BUSY_POLL.skipped(group.name(), "`busy_poll` of the group is off");
    }
    let has_ring = match group.group.backend {
        Backend::Auto => facts.probe.rings(group).is_ok(),
        backend => backend == Backend::IoUring,
    };
    let wanted =
        format!("the kernel polls the network card for {micros} µs before a worker sleeps");
    if has_ring {
        return match release(&facts.files) {
            Ok(version) if version < (6, 9) => BUSY_POLL.warning(
                group.name(),
                "`busy_poll` has no effect with io_uring before Linux 6.9",
                &wanted,
                Fix::Advice("update the kernel, or remove `busy_poll` of the group".to_owned()),
            ),
            Ok(_) => BUSY_POLL.fine(group.name(), "io_uring can poll the network card"),
            Err(cause) => BUSY_POLL.unknown(group.name(), cause),
        };
    }
    match facts.files.value::<u32>("proc/sys/net/core/busy_poll") {
        Ok(limit) if limit < micros => BUSY_POLL.warning(
            group.name(),
            format!(
                "{LIMIT} is {limit} µs, and the kernel polls the network card no longer than that for a worker of the backend mio"
            ),
            &wanted,
            Fix::Sysctls(vec![(LIMIT, micros.to_string())]),
        ),
        Ok(limit) => BUSY_POLL.fine(group.name(), format!("{LIMIT} is {limit} µs")),
        Err(cause) => BUSY_POLL.unknown(group.name(), cause),
    }
}

/// Returns a size as people write it.
pub(super) fn size(bytes: impl TryInto<u64>) -> String {
    match bytes.try_into().unwrap_or(u64::MAX) {
        u64::MAX => "any amount".to_owned(),
        bytes if bytes.is_multiple_of(1 << 20) || bytes >= 10 << 20 => {
            format!("{} MiB", bytes >> 20)
        }
        bytes => format!("{} KiB", bytes >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::FindingState::{Fine, Impossible, NotApplicable, Unknown, Warning};
    use crate::doctor::scratch::{Scratch, only};

    #[test]
    fn a_buffer_is_cut_if_the_kernel_granted_less() {
        let options = SocketOptions::default();
        for (receive, send, expected) in [
            (8 << 20, 4 << 20, false),
            (16 << 20, 8 << 20, false),
            (4 << 20, 4 << 20, true),
            (8 << 20, 212_992, true),
            (0, 0, false),
        ] {
            let host = Scratch::new();
            host.probe().buffers(receive, send);
            let granted = host.probe().granted();
            assert_eq!(is_cut(&granted, &options), expected, "{receive} {send}");
        }
    }

    #[test]
    fn buffers_and_their_limits_are_compared_with_the_configuration() {
        for (granted, limits, expected) in [
            ((8 << 20, 4 << 20), ("8388608", "4194304"), Fine),
            ((212_992, 212_992), ("212992", "212992"), Warning),
            // Root gets what it asks for, and the service does not.
            ((8 << 20, 4 << 20), ("212992", "4194304"), Warning),
            ((8 << 20, 4 << 20), ("x", "y"), Fine),
            ((8 << 20, 4 << 20), ("99999999999999999999999", "-1"), Fine),
            ((0, 0), ("", ""), Fine),
        ] {
            let host = Scratch::new();
            host.write("proc/sys/net/core/rmem_max", limits.0);
            host.write("proc/sys/net/core/wmem_max", limits.1);
            host.probe().buffers(granted.0, granted.1);
            let found = host.with("", |facts| only(check(facts), "socket_buffers"));
            assert_eq!(found.state, expected, "{found:?}");
            if expected == Warning {
                let fix = found.fix.unwrap();
                // What is large enough is not lowered.
                let send = if limits.1 == "4194304" { "" } else { " net.core.wmem_max=4194304" };
                let expected = format!("sysctl -w net.core.rmem_max=8388608{send}");
                assert_eq!((fix.place(), fix.text()), ("host", expected));
            }
        }
        // A container may not have the files.
        let host = Scratch::new();
        assert_eq!(host.with("", |facts| only(check(facts), "socket_buffers")).state, Fine);
        host.probe().refuse_sockets("broken");
        let found = host.with("", |facts| only(check(facts), "socket_buffers"));
        assert_eq!((found.state, found.found.contains("broken")), (Unknown, true));
    }

    #[test]
    fn several_workers_need_a_program() {
        let host = Scratch::new();
        let state = |keys| host.with(keys, |facts| only(check(facts), "reuseport_bpf").state);
        assert_eq!((state("cores = [0]"), state("cores = [0, 1]")), (NotApplicable, Fine));
        host.probe().refuse_sockets("no program");
        assert_eq!(state("cores = [0, 1]"), Impossible);
    }

    #[test]
    fn polling_depends_on_the_backend() {
        let host = Scratch::new();
        let state = |keys: &str| host.with(keys, |facts| only(check(facts), "busy_poll").state);
        assert_eq!(state(""), NotApplicable);
        let (mio, ring) = (
            "backend = \"mio\"\nbusy_poll = \"50us\"",
            "backend = \"io_uring\"\nbusy_poll = \"50us\"",
        );
        assert_eq!((state(mio), state(ring)), (Unknown, Unknown));
        for (limit, expected) in
            [("50", Fine), ("0", Warning), ("x", Unknown), ("5000000000", Unknown)]
        {
            host.write("proc/sys/net/core/busy_poll", limit);
            assert_eq!(state(mio), expected, "{limit}");
        }
        for (release, expected) in [("6.9.0", Fine), ("6.8.12-generic", Warning), ("?", Unknown)] {
            host.write("proc/sys/kernel/osrelease", release);
            assert_eq!(state(ring), expected, "{release}");
        }
    }
}
