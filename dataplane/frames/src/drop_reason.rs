//! Reasons for which frames are dropped.

/// Reason for which a received frame is dropped. Each is a label of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// The frame ends before its headers do, or before the packet that they announce.
    Truncated,
    /// A header is malformed: its version is not that of the EtherType, or its length is below the least.
    Header,
    /// Lengths of headers contradict each other.
    Length,
    /// The packet is longer than the port's MTU, or is a jumbogram (RFC 2675).
    Oversize,
    /// A checksum is wrong, or is missing where it is mandatory (UDP over IPv6).
    Checksum,
    /// The packet is a fragment. QUIC forbids fragmentation (RFC 9000 §14).
    Fragment,
    /// The VLAN tag is missing, not the configured one, or one of a stack.
    Vlan,
    /// The EtherType is none of IPv4, IPv6 and ARP.
    Ethertype,
    /// An IPv6 extension header is unknown, too long, one too many, or says that the packet must be discarded.
    ExtensionHeader,
    /// The packet carries neither UDP nor ICMP.
    Protocol,
    /// The ICMP message is of a type that the host does nothing about.
    IcmpType,
    /// The destination is not this host: a foreign Ethernet or IP address, multicast or broadcast; or UDP port 0.
    Destination,
    /// The source is no address of one other host: multicast, broadcast, loopback, unspecified, or one of this host.
    SourceAddress,
    /// The source port is 0, so that nobody can reply.
    SourcePort,
}

impl DropReason {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Self; 14] = [
        Self::Truncated,
        Self::Header,
        Self::Length,
        Self::Oversize,
        Self::Checksum,
        Self::Fragment,
        Self::Vlan,
        Self::Ethertype,
        Self::ExtensionHeader,
        Self::Protocol,
        Self::IcmpType,
        Self::Destination,
        Self::SourceAddress,
        Self::SourcePort,
    ];

    /// Returns the index of the reason in [`DropReason::ALL`], for an array of counters.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name of the reason, for the label of a counter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Header => "header",
            Self::Length => "length",
            Self::Oversize => "oversize",
            Self::Checksum => "checksum",
            Self::Fragment => "fragment",
            Self::Vlan => "vlan",
            Self::Ethertype => "ethertype",
            Self::ExtensionHeader => "extension_header",
            Self::Protocol => "protocol",
            Self::IcmpType => "icmp_type",
            Self::Destination => "destination",
            Self::SourceAddress => "source_address",
            Self::SourcePort => "source_port",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_places_in_the_list() {
        for (place, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), place);
        }
    }
}
