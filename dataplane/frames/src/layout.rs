//! Numbers of the headers.

/// Ethernet header without a tag, bytes.
pub(crate) const ETHERNET: usize = 14;
/// IEEE 802.1Q tag, bytes.
pub(crate) const TAG: usize = 4;
/// IPv4 header without options, bytes.
pub(crate) const IPV4: usize = 20;
/// IPv6 header without extension headers, bytes.
pub(crate) const IPV6: usize = 40;
/// UDP header, bytes.
pub(crate) const UDP: usize = 8;

/// EtherTypes.
pub(crate) mod ethertype {
    pub(crate) const IPV4: u16 = 0x0800;
    pub(crate) const ARP: u16 = 0x0806;
    pub(crate) const VLAN: u16 = 0x8100;
    /// IEEE 802.1ad, the outer tag of a stack.
    pub(crate) const SERVICE_VLAN: u16 = 0x88a8;
    /// Outer tag of a stack before IEEE 802.1ad.
    pub(crate) const OLD_STACK: u16 = 0x9100;
    pub(crate) const IPV6: u16 = 0x86dd;
}

/// Protocols and next headers of IP.
pub(crate) mod protocol {
    pub(crate) const HOP_BY_HOP: u8 = 0;
    pub(crate) const ICMP: u8 = 1;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const ROUTING: u8 = 43;
    pub(crate) const FRAGMENT: u8 = 44;
    pub(crate) const ESP: u8 = 50;
    pub(crate) const AH: u8 = 51;
    pub(crate) const ICMPV6: u8 = 58;
    pub(crate) const DESTINATION_OPTIONS: u8 = 60;
    pub(crate) const MOBILITY: u8 = 135;
    pub(crate) const HIP: u8 = 139;
    pub(crate) const SHIM6: u8 = 140;
}

/// Types and codes of ICMP for IPv4.
pub(crate) mod icmpv4 {
    pub(crate) const UNREACHABLE: u8 = 3;
    /// Code of "fragmentation needed and DF set".
    pub(crate) const FRAGMENTATION_NEEDED: u8 = 4;
    pub(crate) const ECHO_REQUEST: u8 = 8;
}

/// Types of ICMP for IPv6.
pub(crate) mod icmpv6 {
    pub(crate) const TOO_BIG: u8 = 2;
    pub(crate) const ECHO_REQUEST: u8 = 128;
    pub(crate) const NEIGHBOR_SOLICITATION: u8 = 135;
    pub(crate) const NEIGHBOR_ADVERTISEMENT: u8 = 136;
}
