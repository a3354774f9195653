//! Invariants for any bytes that a network sends.
//!
//! A function turns a string into frames, processes them, and panics where a rule is broken. They return whether
//! anything was accepted, which shows the tests that something was tried. The tests here run them over strings around
//! the seeds in `dataplane/fuzz/seeds/`; the targets in `dataplane/fuzz/` run them over those of a fuzzer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv6Packet, UdpPacket,
};

use crate::address::MacAddr;
use crate::checksum::Sum;
use crate::config::PortConfig;
use crate::headers::{MAX_HEADERS, TxChecksums, TxHeader, write_headers};
use crate::next_hops::NextHops;
use crate::parse::{ChecksumState, FrameParser, RxChecksums, UdpFrame, Verdict};
use crate::stack::{Resolution, Stack, StackEvent};

const PORT: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OWN_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OWN_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
/// A neighbour that is asked for, and that a fuzzer can be.
const HOST_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);

const INTACT: RxChecksums = RxChecksums { ip: ChecksumState::Intact, udp: ChecksumState::Intact };

fn config(vlan: Option<u16>) -> Arc<PortConfig> {
    let config = PortConfig {
        mac: PORT,
        vlan,
        mtu: 1500,
        addresses: vec![(OWN_V4.into(), 24), (OWN_V6.into(), 64), (LINK_LOCAL.into(), 64)],
        gateways: vec![HOST_V4.into()],
        neighbors: vec![],
        scope_id: 7,
    };
    assert_eq!(config.check(), Ok(()));
    Arc::new(config)
}

/// Checks the parser with one frame. The first byte says whether the port has a VLAN.
///
/// # Panics
/// Panics if a datagram is accepted that does not concern the port or is not in the frame, if checksums matter to anything
/// else than the outcome, if smoltcp finds another payload, or if the datagram does not survive being written again.
#[must_use]
pub fn frame(bytes: &[u8]) -> bool {
    let Some((first, frame)) = bytes.split_first() else {
        return false;
    };
    let vlan = (first & 1 == 1).then_some(7);
    let parser = FrameParser::new(&config(vlan));
    let verified = parser.parse(frame, RxChecksums::UNKNOWN);
    let trusted = parser.parse(frame, INTACT);
    if verified != trusted {
        assert!(
            matches!(verified, Verdict::Dropped(crate::DropReason::Checksum)),
            "{verified:?} and {trusted:?}"
        );
    }
    let Verdict::Udp(udp) = trusted else {
        return matches!(trusted, Verdict::Slow(_));
    };
    let payload = frame.get(udp.payload.clone()).expect("inside the frame");
    assert!(udp.peer.port() != 0 && udp.local.port() != 0 && udp.ecn < 4);
    assert!(config(vlan).owns(udp.local.ip()) && !config(vlan).owns(udp.peer.ip()));
    assert!(udp.source_mac.is_unicast() && udp.source_mac != PORT);
    if vlan.is_none()
        && let Some(other) = smoltcp_payload(frame)
    {
        assert_eq!(payload, other);
    }
    survives(&udp, payload, &parser, vlan);
    true
}

/// Returns what smoltcp takes for the payload of a UDP datagram without tags or extension headers.
fn smoltcp_payload(frame: &[u8]) -> Option<&[u8]> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    let rest = frame.get(14..)?;
    match ethernet.ethertype() {
        EthernetProtocol::Ipv4 => {
            let ip = Ipv4Packet::new_checked(rest).ok()?;
            let udp = UdpPacket::new_checked(ip.payload()).ok()?;
            Some(udp.payload())
        }
        EthernetProtocol::Ipv6 => {
            let ip = Ipv6Packet::new_checked(rest).ok()?;
            let is_udp = ip.next_header() == IpProtocol::Udp;
            let udp = UdpPacket::new_checked(ip.payload()).ok()?;
            is_udp.then(|| udp.payload())
        }
        _ => None,
    }
}

/// Writes the datagram again and parses it.
fn survives(udp: &UdpFrame, payload: &[u8], parser: &FrameParser, vlan: Option<u16>) {
    let header = TxHeader {
        source_mac: udp.source_mac,
        destination_mac: PORT,
        vlan,
        source: udp.peer,
        destination: udp.local,
        ecn: udp.ecn,
        hop_limit: TxHeader::HOP_LIMIT,
    };
    let mut buffer = vec![0; MAX_HEADERS];
    buffer.extend_from_slice(payload);
    let range = MAX_HEADERS..buffer.len();
    let frame = write_headers(&mut buffer, range, &header, TxChecksums::SOFTWARE);
    let frame = &buffer[frame.expect("room")];
    match parser.parse(frame, RxChecksums::UNKNOWN) {
        Verdict::Udp(again) => {
            assert_eq!(&frame[again.payload.clone()], payload);
            let payload = udp.payload.clone();
            assert_eq!(UdpFrame { payload, ..again }, *udp);
        }
        other => panic!("{other:?}"),
    }
}

/// Checks the stack with many frames, each behind three bytes: flags, the time since the last in tenths of a second, and
/// its length. Flag 1 resolves the neighbours before, flag 2 makes the checksums right.
///
/// # Panics
/// Panics if the stack sends what is no frame of the port, knows a station that nobody can be, or waits without an end.
#[must_use]
pub fn stack(bytes: &[u8]) -> bool {
    let config = config(None);
    let mut stack = Stack::new(Arc::clone(&config));
    let mut hops = NextHops::new(Arc::clone(&config), [1, 2]);
    let (mut rest, mut now) = (bytes, 0);
    while let Some((&[flags, later, len], behind)) = rest.split_first_chunk() {
        now += u64::from(later) * 100;
        let len = usize::from(len).min(behind.len());
        let (frame, behind) = behind.split_at(len);
        rest = behind;
        if flags & 1 != 0 {
            for host in [IpAddr::V4(HOST_V4), IpAddr::V6(HOST_V6)] {
                if let Resolution::Known(mac) = stack.resolve(host, now) {
                    assert!(mac.is_unicast() && mac != PORT);
                }
            }
        }
        let mut frame = frame.to_vec();
        if flags & 2 != 0 {
            seal(&mut frame);
        }
        stack.poll(now, &mut check_sent);
        stack.input(&frame, now, &mut check_sent);
        stack.poll(now, &mut check_sent);
        let next = stack.next_timer().expect("a gateway and announcements");
        assert!(next > now, "due again at {next}, now {now}");
        if let Some(table) = stack.take_resolved() {
            assert!(table.len() <= 3);
            hops.set_resolved(table);
        }
        let _ = hops.lookup(HOST_V4.into(), now);
        while let Some(StackEvent::TooBig { local, peer, size, max_size, quote: _ }) =
            stack.take_event()
        {
            assert!(config.owns(local.ip()) && local.is_ipv4() == peer.is_ipv4());
            assert!((1200..size).contains(&max_size) && size <= 1472);
            assert!(matches!(peer, SocketAddr::V4(_)) || peer.ip().is_ipv6());
        }
    }
    let counters = stack.counters();
    counters.answers + counters.arp_replies + counters.ndp_replies + counters.echo_replies > 0
        || counters.too_big > 0
}

fn check_sent(frame: &[u8]) {
    assert!((60..=1514).contains(&frame.len()));
    let ethernet = EthernetFrame::new_checked(frame).expect("a frame");
    assert_eq!(ethernet.src_addr().0, PORT.0);
    assert_ne!(ethernet.dst_addr().0, PORT.0);
    match ethernet.ethertype() {
        EthernetProtocol::Arp => {}
        EthernetProtocol::Ipv4 => {
            let ip = Ipv4Packet::new_checked(ethernet.payload()).expect("a packet");
            assert!(ip.verify_checksum() && ip.src_addr() == OWN_V4);
            assert!(Sum::default().add(ip.payload()).is_right());
        }
        EthernetProtocol::Ipv6 => {
            let ip = Ipv6Packet::new_checked(ethernet.payload()).expect("a packet");
            let own = [OWN_V6, LINK_LOCAL];
            assert!(own.contains(&ip.src_addr()));
        }
        EthernetProtocol::Unknown(other) => panic!("EtherType {other:x}"),
    }
}

/// Makes the checksums of an IPv4 header and of ICMP right, as far as lengths allow.
fn seal(frame: &mut [u8]) {
    match frame.get(12..15) {
        Some([0x08, 0x00, 0x45]) if frame.len() >= 42 => {
            let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
            let end = end.clamp(42, frame.len());
            put(&mut frame[14..34], 10, Sum::default());
            put(&mut frame[34..end], 2, Sum::default());
        }
        Some([0x86, 0xdd, _]) if frame.len() >= 62 => {
            let payload_len = u16::from_be_bytes([frame[18], frame[19]]);
            let end = (54 + usize::from(payload_len)).clamp(62, frame.len());
            let pseudo = Sum::default().add(&frame[22..54]).add_word(payload_len).add_word(58);
            put(&mut frame[54..end], 2, pseudo);
        }
        _ => {}
    }
}

fn put(bytes: &mut [u8], at: usize, sum: Sum) {
    bytes[at..at + 2].fill(0);
    let checksum = sum.add(bytes).checksum();
    bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn seeds(target: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
        let files = std::fs::read_dir(folder.join(target)).unwrap();
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        let seeds: Vec<_> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
        assert!(!seeds.is_empty());
        seeds
    }

    /// Changes of a string: a place, what to do there, and a byte for it.
    type Changes = Vec<(proptest::sample::Index, u8, u8)>;

    fn changed(mut string: Vec<u8>, changes: &Changes) -> Vec<u8> {
        for (place, what, byte) in changes {
            let at = place.index(string.len() + 1);
            match what % 4 {
                0 => string.insert(at, *byte),
                1 if at < string.len() => drop(string.remove(at)),
                2 if at < string.len() => string.truncate(at),
                _ if at < string.len() => string[at] = *byte,
                _ => {}
            }
        }
        string
    }

    fn changes() -> impl Strategy<Value = Changes> {
        vec((any::<proptest::sample::Index>(), any::<u8>(), any::<u8>()), 1..8)
    }

    #[test]
    fn every_seed_gets_far() {
        for seed in seeds("frame") {
            assert!(frame(&seed), "{}", seed.escape_ascii());
        }
        for seed in seeds("stack") {
            assert!(stack(&seed), "{}", seed.escape_ascii());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_frame_breaks_a_rule(
            seed in any::<proptest::sample::Index>(),
            changes in changes(),
        ) {
            let _ = frame(&changed(seed.get(&seeds("frame")).clone(), &changes));
        }

        #[test]
        fn no_frames_break_a_rule_of_the_stack(
            seed in any::<proptest::sample::Index>(),
            changes in changes(),
        ) {
            let _ = stack(&changed(seed.get(&seeds("stack")).clone(), &changes));
        }
    }
}
