//! Kinds of ICMP messages.

use super::SlowKind;
use crate::drop_reason::DropReason;
use crate::layout::{icmpv4, icmpv6};

/// Returns the kind of an ICMP message for IPv4.
pub(super) fn kind_v4(message: &[u8]) -> Result<SlowKind, DropReason> {
    match message {
        [icmpv4::ECHO_REQUEST, ..] => Ok(SlowKind::Echo),
        [icmpv4::UNREACHABLE, icmpv4::FRAGMENTATION_NEEDED, ..] => Ok(SlowKind::TooBig),
        _ => Err(DropReason::IcmpType),
    }
}

/// Returns the kind of an ICMP message for IPv6. Only questions for addresses concern the port in a multicast group.
pub(super) fn kind_v6(message: &[u8], is_own: bool) -> Result<SlowKind, DropReason> {
    match message.first() {
        Some(&icmpv6::NEIGHBOR_SOLICITATION) => Ok(SlowKind::Neighbor),
        Some(&icmpv6::NEIGHBOR_ADVERTISEMENT) if is_own => Ok(SlowKind::Neighbor),
        Some(&icmpv6::ECHO_REQUEST) if is_own => Ok(SlowKind::Echo),
        Some(&icmpv6::TOO_BIG) if is_own => Ok(SlowKind::TooBig),
        _ => Err(DropReason::IcmpType),
    }
}
