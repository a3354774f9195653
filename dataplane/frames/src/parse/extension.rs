//! Extension headers of IPv6.

use crate::drop_reason::DropReason;
use crate::layout::protocol;

/// Most extension headers of a packet. A packet to a host has hardly ever one.
const MAX_HEADERS: usize = 2;
/// Most bytes of all extension headers together.
const MAX_BYTES: usize = 64;

/// Skips extension headers: returns the protocol behind them and the offset in `payload` where it begins.
///
/// Hop-by-hop options may only come first (RFC 8200 §4.1). Options that a host must understand and that are unknown here,
/// which are all, discard the packet (§4.2); nothing is sent back, as §4.2 allows and strangers could abuse.
pub(super) fn skip(payload: &[u8], first: u8) -> Result<(u8, usize), DropReason> {
    let (mut next, mut at, mut seen) = (first, 0, 0);
    loop {
        match next {
            protocol::UDP | protocol::ICMPV6 => return Ok((next, at)),
            protocol::HOP_BY_HOP if seen == 0 => {}
            protocol::DESTINATION_OPTIONS if seen < MAX_HEADERS => {}
            protocol::FRAGMENT => return Err(DropReason::Fragment),
            protocol::HOP_BY_HOP
            | protocol::DESTINATION_OPTIONS
            | protocol::ROUTING
            | protocol::ESP
            | protocol::AH
            | protocol::MOBILITY
            | protocol::HIP
            | protocol::SHIM6 => return Err(DropReason::ExtensionHeader),
            _ => return Err(DropReason::Protocol),
        }
        let rest = payload.get(at..).ok_or(DropReason::Truncated)?;
        let [following, len] = *rest.first_chunk().ok_or(DropReason::Truncated)?;
        let len = (usize::from(len) + 1) * 8;
        if at + len > MAX_BYTES {
            return Err(DropReason::ExtensionHeader);
        }
        let options = rest.get(2..len).ok_or(DropReason::Truncated)?;
        if !are_skippable(options) {
            return Err(DropReason::ExtensionHeader);
        }
        next = following;
        at += len;
        seen += 1;
    }
}

/// Returns whether a host may skip all of the options: the two highest bits of their types are 0.
fn are_skippable(mut options: &[u8]) -> bool {
    while let Some((kind, rest)) = options.split_first() {
        // Pad1 is the only option without a length.
        if *kind == 0 {
            options = rest;
            continue;
        }
        let behind = rest.split_first();
        let behind = behind.and_then(|(len, data)| data.get(usize::from(*len)..));
        match behind {
            Some(behind) if kind >> 6 == 0 => options = behind,
            _ => return false,
        }
    }
    true
}
