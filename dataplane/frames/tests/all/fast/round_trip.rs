//! The parser returns what the writer was given.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use proptest::collection::vec;
use proptest::prelude::*;
use sluicegate_frames::{
    FrameParser, IpChecksum, MAX_HEADERS, PortConfig, RxChecksums, TxChecksums, TxHeader,
    UdpChecksum, UdpFrame, Verdict, WriteError, write_headers,
};

use crate::fast::fixture::{IP, PEER_MAC, PORT_MAC, UDP_V4, UDP_V6, config, frame, header, sum};

fn any_host() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    let v4 = any::<(u32, u32)>().prop_map(|(a, b)| {
        let ip = |bits| IpAddr::V4(Ipv4Addr::from_bits(bits & 0x7fff_ffff | 0x4000_0000));
        (ip(a & 0xbfff_ffff | 0x100), ip(b & !0x100))
    });
    let v6 = any::<(u128, u128)>().prop_map(|(a, b)| {
        let ip = |bits| IpAddr::V6(Ipv6Addr::from_bits(bits & (u128::MAX >> 3) | 1 << 125));
        (ip(a | 1), ip(b & !1))
    });
    prop_oneof![v4, v6].prop_filter("0/8 and 127/8", |(a, b)| {
        let usable =
            |ip: &IpAddr| !matches!(ip, IpAddr::V4(ip) if matches!(ip.octets()[0], 0 | 127));
        usable(a) && usable(b)
    })
}

proptest! {
    #[test]
    fn datagrams_survive_both_ways(
        (peer, local) in any_host(),
        (peer_port, local_port) in (1u16.., 1u16..),
        vlan in proptest::option::of(1u16..4095),
        ecn in 0u8..4,
        hop_limit in 1u8..,
        payload in vec(any::<u8>(), 0..1400),
        offset in 0usize..40,
        padding in 0usize..10,
    ) {
        let bits = if local.is_ipv4() { 32 } else { 128 };
        let config = PortConfig { addresses: vec![(local, bits)], ..config(vlan) };
        prop_assert_eq!(config.check(), Ok(()));
        let header = TxHeader {
            source_mac: PEER_MAC,
            destination_mac: PORT_MAC,
            vlan,
            source: SocketAddr::new(peer, peer_port),
            destination: SocketAddr::new(local, local_port),
            ecn,
            hop_limit,
        };
        let at = MAX_HEADERS + offset;
        let mut buffer = vec![0xaa; at];
        buffer.extend_from_slice(&payload);
        buffer.resize(buffer.len() + padding, 0xbb);
        let before = buffer.clone();
        let end = at + payload.len();
        let written = write_headers(&mut buffer, at..end, &header, TxChecksums::SOFTWARE).unwrap();
        prop_assert_eq!(written.end, end);
        prop_assert_eq!(&buffer[..written.start], &before[..written.start]);
        prop_assert_eq!(&buffer[at..], &before[at..]);
        let frame = &buffer[written.start..];
        let parsed = FrameParser::new(&config).parse(frame, RxChecksums::UNKNOWN);
        prop_assert_eq!(parsed, Verdict::Udp(UdpFrame {
            source_mac: PEER_MAC,
            peer: header.source,
            local: header.destination,
            ecn,
            payload: at - written.start..end - written.start,
        }));
    }

    #[test]
    fn no_bytes_make_the_parser_panic(
        bytes in vec(any::<u8>(), 0..200),
        start in 0usize..3,
        vlan in proptest::option::of(1u16..3),
    ) {
        let parser = FrameParser::new(&config(vlan));
        let mut frame = match start {
            0 => vec![],
            1 => crate::fast::fixture::v4(b"")[..14].to_vec(),
            _ => crate::fast::fixture::v6(b"")[..20].to_vec(),
        };
        frame.extend_from_slice(&bytes);
        if let Verdict::Udp(udp) = parser.parse(&frame, RxChecksums::UNKNOWN) {
            prop_assert!(frame.get(udp.payload).is_some());
        }
    }
}

#[test]
fn link_local_peers_have_the_scope_of_the_port() {
    let header = header("[fe80::9]:5000".parse().unwrap(), "[fe80::1]:443".parse().unwrap());
    let frame = frame(&header, b"payload");
    let Verdict::Udp(udp) = crate::fast::fixture::parse(None, &frame) else {
        panic!("dropped");
    };
    assert_eq!(udp.peer, "[fe80::9%7]:5000".parse().unwrap());
    assert_eq!(udp.local, "[fe80::1%7]:443".parse().unwrap());
}

#[test]
fn a_checksum_of_zero_is_sent_as_ones() {
    for (source, destination, at) in [
        ("192.0.2.9:5000", "192.0.2.1:443", UDP_V4),
        ("[2001:db8::9]:5000", "[2001:db8::1]:443", UDP_V6),
    ] {
        let header = header(source.parse().unwrap(), destination.parse().unwrap());
        let open = frame(&header, &[0, 0]);
        // The payload that makes the sum complete: the checksum that the rest has.
        let sent = frame(&header, &open[at + 6..at + 8]);
        assert_eq!(sent[at + 6..at + 8], [0xff, 0xff]);
        assert!(matches!(crate::fast::fixture::parse(None, &sent), Verdict::Udp(_)));
    }
}

#[test]
fn headers_are_those_of_a_host_that_never_fragments() {
    let v4 = crate::fast::fixture::v4(b"payload");
    assert_eq!(v4[IP + 4..IP + 8], [0, 0, 0x40, 0], "identification 0 and DF");
    assert_eq!(v4[IP + 8], 64, "TTL");
    let v6 = crate::fast::fixture::v6(b"payload");
    assert_eq!(v6[IP + 7], 64, "hop limit");
    let label = |port: u16| {
        let source = SocketAddr::new("2001:db8::9".parse().unwrap(), port);
        let frame = frame(&header(source, "[2001:db8::1]:443".parse().unwrap()), b"x");
        u32::from_be_bytes([0, frame[IP + 1] & 0xf, frame[IP + 2], frame[IP + 3]])
    };
    assert_eq!(label(5000), label(5000));
    let labels: std::collections::HashSet<_> = (1..=1000).map(label).collect();
    assert!(labels.len() > 990, "flows differ: {}", labels.len());
    assert!(!labels.contains(&0));
}

#[test]
fn the_flow_label_depends_on_each_bit_of_the_flow() {
    let label = |(source, destination): (u128, u128), (from, to): (u16, u16)| {
        let socket = |bits, port| SocketAddr::new(Ipv6Addr::from_bits(bits).into(), port);
        let frame = frame(&header(socket(source, from), socket(destination, to)), b"x");
        [frame[IP + 1] & 0xf, frame[IP + 2], frame[IP + 3]]
    };
    let (source, destination) = ((0x2001_0db8 << 96) + 9, (0x2001_0db8 << 96) + 1);
    let ports = (5000, 443);
    let plain = label((source, destination), ports);
    for bit in (0..128).map(|bit| 1 << bit) {
        assert_ne!(label((source ^ bit, destination), ports), plain);
        assert_ne!(label((source, destination ^ bit), ports), plain);
    }
    for bit in (0..16).map(|bit| 1 << bit) {
        assert_ne!(label((source, destination), (ports.0 ^ bit, ports.1)), plain);
        assert_ne!(label((source, destination), (ports.0, ports.1 ^ bit)), plain);
    }
}

#[test]
fn a_port_that_computes_checksums_gets_the_sums_it_expects() {
    let payload = [7; 100];
    for (source, destination, at, addresses) in [
        ("192.0.2.9:5000", "192.0.2.1:443", UDP_V4, IP + 12..IP + 20),
        ("[2001:db8::9]:5000", "[2001:db8::1]:443", UDP_V6, IP + 8..IP + 40),
    ] {
        let header = header(source.parse().unwrap(), destination.parse().unwrap());
        for (udp, len) in [(UdpChecksum::Port, 108), (UdpChecksum::PortSegments, 0)] {
            let mut buffer = vec![0xaa; MAX_HEADERS];
            buffer.extend_from_slice(&payload);
            let range = MAX_HEADERS..buffer.len();
            let ip = IpChecksum::Port;
            let frame =
                write_headers(&mut buffer, range, &header, TxChecksums { ip, udp }).unwrap();
            let frame = &buffer[frame];
            let pseudo = sum(&[&frame[addresses.clone()], &[0, 17, 0, len]]);
            assert_eq!(frame[at + 6..at + 8], pseudo.to_be_bytes());
            if at == UDP_V4 {
                assert_eq!(frame[IP + 10..IP + 12], [0, 0]);
            }
        }
    }
}

#[test]
fn headers_that_have_no_room_or_no_meaning_are_refused() {
    let v6 = header("[2001:db8::9]:5000".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap());
    let v6 = TxHeader { vlan: Some(1), ..v6 };
    let v4 = header("192.0.2.9:5000".parse().unwrap(), "192.0.2.1:443".parse().unwrap());
    let mixed = TxHeader { source: v6.source, ..v4 };
    let mut buffer = vec![0; 70_000];
    let mut write =
        |payload, header| write_headers(&mut buffer, payload, header, TxChecksums::SOFTWARE);
    assert_eq!(write(MAX_HEADERS..100, &v6), Ok(0..100));
    assert_eq!(write(MAX_HEADERS - 1..100, &v6), Err(WriteError::Room));
    assert_eq!(write(69_000..70_001, &v4), Err(WriteError::Room));
    #[expect(clippy::reversed_empty_ranges, reason = "a caller's mistake")]
    let reversed = 100..99;
    assert_eq!(write(reversed, &v4), Err(WriteError::Room));
    assert_eq!(write(100..200, &mixed), Err(WriteError::Families));
    assert_eq!(write(100..100 + 65_507, &v4), Ok(58..65_607));
    assert_eq!(write(100..100 + 65_508, &v4), Err(WriteError::TooLong));
    assert_eq!(write(100..100 + 65_527, &v6), Ok(34..65_627));
    assert_eq!(write(100..100 + 65_528, &v6), Err(WriteError::TooLong));
}
