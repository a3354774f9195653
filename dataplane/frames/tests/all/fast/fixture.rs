//! A port, and frames to it with any defect.

use std::net::SocketAddr;

use sluicegate_frames::{
    DropReason, FrameParser, MacAddr, PortConfig, RxChecksums, TxChecksums, TxHeader, Verdict,
    write_headers,
};

pub(crate) const PORT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub(crate) const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// Offsets in frames without a tag.
pub(crate) const IP: usize = 14;
pub(crate) const UDP_V4: usize = IP + 20;
pub(crate) const UDP_V6: usize = IP + 40;

/// Returns the address that a test names.
pub(crate) fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("an address")
}

pub(crate) fn config(vlan: Option<u16>) -> PortConfig {
    let config = PortConfig {
        mac: PORT_MAC,
        vlan,
        mtu: 1500,
        addresses: vec![
            (parsed("192.0.2.1"), 24),
            (parsed("2001:db8::1"), 64),
            (parsed("fe80::1"), 64),
        ],
        gateways: vec![],
        neighbors: vec![],
        scope_id: 7,
    };
    assert_eq!(config.check(), Ok(()));
    config
}

pub(crate) fn parse(vlan: Option<u16>, frame: &[u8]) -> Verdict {
    FrameParser::new(&config(vlan)).parse(frame, RxChecksums::UNKNOWN)
}

pub(crate) fn header(source: SocketAddr, destination: SocketAddr) -> TxHeader {
    TxHeader {
        source_mac: PEER_MAC,
        destination_mac: PORT_MAC,
        vlan: None,
        source,
        destination,
        ecn: 0,
        hop_limit: TxHeader::HOP_LIMIT,
    }
}

/// Returns a frame of a datagram.
pub(crate) fn frame(header: &TxHeader, payload: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0xaa; 80];
    buffer.extend_from_slice(payload);
    let end = buffer.len();
    let range = write_headers(&mut buffer, 80..end, header, TxChecksums::SOFTWARE).expect("room");
    buffer[range].to_vec()
}

pub(crate) fn v4(payload: &[u8]) -> Vec<u8> {
    let source = parsed("192.0.2.9:5000");
    frame(&header(source, parsed("192.0.2.1:443")), payload)
}

pub(crate) fn v6(payload: &[u8]) -> Vec<u8> {
    let source = parsed("[2001:db8::9]:5000");
    frame(&header(source, parsed("[2001:db8::1]:443")), payload)
}

/// Returns the frame with a tag in front of its EtherType.
pub(crate) fn tagged(frame: &[u8], ethertype: u16, vlan: u16) -> Vec<u8> {
    let tag = [ethertype.to_be_bytes(), vlan.to_be_bytes()].concat();
    [&frame[..12], &tag, &frame[12..]].concat()
}

/// Returns the sum of 16-bit words in one's complement.
pub(crate) fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for pair in parts.concat().chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("folded")
}

/// Recomputes the checksum of the IPv4 header.
pub(crate) fn seal_ip(mut frame: Vec<u8>) -> Vec<u8> {
    let len = usize::from(frame[IP] & 0xf) * 4;
    frame[IP + 10..IP + 12].fill(0);
    let checksum = !sum(&[&frame[IP..IP + len]]);
    frame[IP + 10..IP + 12].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// Recomputes the checksum of the UDP datagram at `at`, over the length that its header states.
pub(crate) fn seal_udp(mut frame: Vec<u8>, at: usize) -> Vec<u8> {
    let addresses = if frame[IP] >> 4 == 4 { 12..20 } else { 8..40 };
    let addresses = frame[IP + addresses.start..IP + addresses.end].to_vec();
    let len = frame[at + 4..at + 6].to_vec();
    let end = at + usize::from(u16::from_be_bytes([len[0], len[1]]));
    frame[at + 6..at + 8].fill(0);
    let sum = !sum(&[&addresses, &[0, 17], &len, &frame[at..end]]);
    frame[at + 6..at + 8].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Returns an IPv6 frame whose UDP datagram stands behind these extension headers, the first of kind `first`.
pub(crate) fn extended(first: u8, headers: &[u8]) -> Vec<u8> {
    let mut frame = v6(b"behind");
    frame[IP + 6] = first;
    let len = u16::from_be_bytes([frame[IP + 4], frame[IP + 5]]);
    let len = len + u16::try_from(headers.len()).expect("few bytes");
    frame[IP + 4..IP + 6].copy_from_slice(&len.to_be_bytes());
    [&frame[..UDP_V6], headers, &frame[UDP_V6..]].concat()
}

/// Returns a broadcast that asks for the Ethernet address of `target`.
pub(crate) fn arp_request(target: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 2, 0x08, 0x06]);
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend([2, 0, 0, 0, 0, 2, 192, 0, 2, 9, 0, 0, 0, 0, 0, 0]);
    frame.extend(target);
    frame
}

/// Expects a frame to be dropped by a reason.
pub(crate) fn dropped(case: &str, frame: &[u8], reason: DropReason) {
    assert_eq!(parse(None, frame), Verdict::Dropped(reason), "{case}");
}

/// Returns the frame with these bytes at an offset.
pub(crate) fn with(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}
