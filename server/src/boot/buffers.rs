//! Sizes of the sockets' buffers, which the kernel may have cut.

use sluicegate_config::{Backend, Config};

use super::listen::ListenerLogLine;
use crate::doctor::{is_cut, raise_buffers};

/// Warns, once for each group, of sockets whose buffers the kernel has made smaller than the configuration asks.
pub(super) fn advise(config: &Config, lines: &[ListenerLogLine]) {
    let groups = config.groups.iter();
    for group in groups.filter(|group| group.backend != Backend::Dpdk) {
        let of_group = lines.iter().filter(|line| line.group == group.name);
        let mut granted = of_group.filter_map(|line| line.facts.as_ref());
        let Some(facts) = granted.find(|facts| is_cut(facts, &group.socket)) else {
            continue;
        };
        let raise = raise_buffers(&group.socket).text();
        tracing::warn!(
            group = group.name,
            receive_buffer = facts.receive_buffer,
            send_buffer = facts.send_buffer,
            "the kernel grants smaller socket buffers than configured, so bursts may be lost: {raise}, or grant CAP_NET_ADMIN, or set \
             `socket_receive_buffer` and `socket_send_buffer` of the group lower"
        );
    }
}
