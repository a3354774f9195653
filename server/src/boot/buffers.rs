//! Sizes of the sockets' buffers, which the kernel may have cut.

use sluicegate_config::{Backend, Config};
use sluicegate_dataplane::ListenerFacts;

use super::listen::Line;

/// Warns, once for each group, of sockets whose buffers the kernel has made smaller than the configuration asks.
pub(super) fn advise(config: &Config, lines: &[Line]) {
    let groups = config.groups.iter();
    for group in groups.filter(|group| group.backend != Backend::Dpdk) {
        let (receive, send) = (group.socket.receive_buffer, group.socket.send_buffer);
        let of_group = lines.iter().filter(|line| line.group == group.name);
        let mut granted = of_group.filter_map(|line| line.facts.as_ref());
        let Some(facts) = granted.find(|facts| is_cut(facts, receive, send)) else {
            continue;
        };
        tracing::warn!(
            group = group.name,
            receive_buffer = facts.receive_buffer,
            send_buffer = facts.send_buffer,
            "the kernel grants smaller socket buffers than configured, so bursts may be lost: sysctl -w \
             net.core.rmem_max={receive} net.core.wmem_max={send}, or grant CAP_NET_ADMIN, or set `socket_receive_buffer` and \
             `socket_send_buffer` of the group lower"
        );
    }
}

/// Returns whether a buffer is smaller than asked for. It is 0 where the kernel does not say.
fn is_cut(facts: &ListenerFacts, receive: usize, send: usize) -> bool {
    (1..receive).contains(&facts.receive_buffer) || (1..send).contains(&facts.send_buffer)
}

#[cfg(test)]
mod tests {
    use sluicegate_dataplane::{ListenerId, Payloads};

    use super::*;

    #[test]
    fn a_buffer_is_cut_if_the_kernel_granted_less() {
        let facts = |receive_buffer, send_buffer| ListenerFacts {
            listener: ListenerId(0),
            address: ([127, 0, 0, 1], 1).into(),
            receive_buffer,
            send_buffer,
            gso: false,
            gro: false,
            payloads: Payloads::default(),
        };
        for (receive, send, expected) in [
            (8 << 20, 4 << 20, false),
            (16 << 20, 8 << 20, false),
            (4 << 20, 4 << 20, true),
            (8 << 20, 212_992, true),
            (0, 0, false),
        ] {
            assert_eq!(
                is_cut(&facts(receive, send), 8 << 20, 4 << 20),
                expected,
                "{receive} {send}"
            );
        }
    }
}
