//! Reports that a datagram was too big: those about ours, and forged ones.

use std::net::SocketAddr;

use sluicegate_frames::{MAX_HEADERS, Quote, StackEvent, TxChecksums, TxHeader, write_headers};
use smoltcp::wire::{Icmpv6Repr, IpProtocol, Ipv6Repr};

use crate::slow::fixture::{
    HOST_MAC, HOST_V6, OWN_V4, OWN_V6, PORT_MAC, Port, config, ethernet, icmpv6,
};

/// Returns the IP packet of a datagram that the port sends.
fn sent(local: &str, peer: &str, size: usize) -> Vec<u8> {
    let header = TxHeader {
        source_mac: PORT_MAC,
        destination_mac: HOST_MAC,
        vlan: None,
        source: local.parse().unwrap(),
        destination: peer.parse().unwrap(),
        ecn: 2,
        hop_limit: TxHeader::HOP_LIMIT,
    };
    let mut buffer = vec![0x5a; MAX_HEADERS + size];
    let payload = MAX_HEADERS..buffer.len();
    let frame = write_headers(&mut buffer, payload, &header, TxChecksums::SOFTWARE).unwrap();
    buffer[frame.start + 14..].to_vec()
}

fn checksum(bytes: &[u8]) -> [u8; 2] {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    (!u16::try_from(sum).unwrap()).to_be_bytes()
}

/// Returns a frame with "fragmentation needed" from a router, which quotes the packet's first bytes.
fn fragmentation_needed(mtu: u16, quote: &[u8]) -> Vec<u8> {
    let [high, low] = mtu.to_be_bytes();
    let mut icmp = [&[3, 4, 0, 0, 0, 0, high, low], quote].concat();
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    let len = u16::try_from(20 + icmp.len()).unwrap().to_be_bytes();
    let mut ip = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 60, 1, 0, 0, 203, 0, 113, 1];
    ip.extend(OWN_V4.octets());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    ethernet(PORT_MAC, HOST_MAC, 0x0800, &[ip, icmp].concat())
}

fn packet_too_big(mtu: u32, quote: &[u8]) -> Vec<u8> {
    let header = Ipv6Repr {
        src_addr: <[u8; 16]>::try_from(&quote[8..24]).unwrap().into(),
        dst_addr: <[u8; 16]>::try_from(&quote[24..40]).unwrap().into(),
        next_header: IpProtocol::from(quote[6]),
        payload_len: usize::from(u16::from_be_bytes([quote[4], quote[5]])),
        hop_limit: quote[7],
    };
    let data = &quote[40..];
    let message = Icmpv6Repr::PktTooBig { mtu, header, data };
    let router = "2001:db8:ffff::1".parse().unwrap();
    let packet = icmpv6((router, OWN_V6), 60, &message);
    ethernet(PORT_MAC, HOST_MAC, 0x86dd, &packet)
}

const V4: (&str, &str) = ("192.0.2.1:443", "198.51.100.7:5000");
const V6: (&str, &str) = ("[2001:db8::1]:443", "[2001:db8:7::7]:5000");

fn event(frame: &[u8]) -> Option<StackEvent> {
    let mut port = Port::new(config());
    port.input(frame, 0);
    assert!(port.sent.is_empty());
    let counters = port.stack.counters();
    let event = port.stack.take_event();
    assert_eq!(counters.too_big, u64::from(event.is_some()));
    event
}

#[test]
fn reports_about_datagrams_of_ours_become_events() {
    let expected = |addresses: (&str, &str), max_size, quoted| {
        let [local, peer]: [SocketAddr; 2] =
            [addresses.0.parse().unwrap(), addresses.1.parse().unwrap()];
        Some(StackEvent::TooBig {
            local,
            peer,
            size: 1452,
            max_size,
            quote: Quote::new(&vec![0x5a; quoted]),
        })
    };
    assert_eq!(Quote::new(&[0x5a; 100]).bytes(), [0x5a; 26]);
    let v4 = sent(V4.0, V4.1, 1452);
    for quoted in [28, 33, 100, 500] {
        let frame = fragmentation_needed(1400, &v4[..quoted]);
        assert_eq!(event(&frame), expected(V4, 1372, quoted - 28), "{quoted} bytes quoted");
    }
    let v6 = sent(V6.0, V6.1, 1452);
    for quoted in [48, 100, 1232] {
        let frame = packet_too_big(1400, &v6[..quoted]);
        assert_eq!(event(&frame), expected(V6, 1352, quoted - 48), "{quoted} bytes quoted");
    }
    // Routers that state none, or less than QUIC can use.
    for mtu in [0, 68, 1200] {
        let frame = fragmentation_needed(mtu, &v4[..28]);
        assert_eq!(event(&frame), expected(V4, 1200, 0), "MTU {mtu}");
    }
}

#[test]
fn a_quoted_packet_changed_on_the_way_is_still_ours() {
    let mut v4 = sent(V4.0, V4.1, 1452);
    // Service class, TTL and checksum.
    (v4[1], v4[8], v4[10]) = (0xff, 1, !v4[10]);
    assert!(event(&fragmentation_needed(1400, &v4[..28])).is_some());
}

#[test]
fn forged_reports_are_counted_and_ignored() {
    let v4 = |change: fn(&mut Vec<u8>)| {
        let mut quote = sent(V4.0, V4.1, 1452);
        change(&mut quote);
        fragmentation_needed(1400, &quote[..28])
    };
    let cases = [
        ("cut short", fragmentation_needed(1400, &sent(V4.0, V4.1, 1452)[..27])),
        ("nothing quoted", fragmentation_needed(1400, &[])),
        ("IPv6 quoted", v4(|quote| quote[0] = 0x60)),
        ("options", v4(|quote| quote[0] = 0x46)),
        ("a fragment", v4(|quote| quote[7] = 1)),
        ("may be fragmented", v4(|quote| quote[6] = 0)),
        ("with an identification", v4(|quote| quote[5] = 1)),
        ("TCP", v4(|quote| quote[9] = 6)),
        ("another source", v4(|quote| quote[15] = 2)),
        ("multicast peer", v4(|quote| quote[16] = 224)),
        ("lengths that contradict", v4(|quote| quote[25] ^= 1)),
        ("fits the MTU", fragmentation_needed(1480, &sent(V4.0, V4.1, 1452)[..28])),
        ("beyond the port's MTU", fragmentation_needed(1480, &sent(V4.0, V4.1, 1473)[..28])),
        ("of a size that QUIC needs", fragmentation_needed(600, &sent(V4.0, V4.1, 1200)[..28])),
        ("IPv6, cut short", packet_too_big(1400, &sent(V6.0, V6.1, 1452)[..47])),
        ("IPv6, fits", packet_too_big(1500, &sent(V6.0, V6.1, 1452)[..48])),
        ("IPv6, another source", {
            let mut quote = sent(V6.0, V6.1, 1452);
            quote[23] = 2;
            packet_too_big(1400, &quote[..48])
        }),
        ("IPv6, TCP", {
            let mut quote = sent(V6.0, V6.1, 1452);
            quote[6] = 6;
            packet_too_big(1400, &quote[..48])
        }),
    ];
    for (case, frame) in cases {
        let mut port = Port::new(config());
        port.input(&frame, 0);
        assert_eq!(port.stack.take_event(), None, "{case}");
        assert_eq!(port.stack.counters().too_big_forged, 1, "{case}");
    }
}

#[test]
fn reports_with_a_wrong_checksum_are_malformed() {
    for frame in [
        fragmentation_needed(1400, &sent(V4.0, V4.1, 1452)[..28]),
        packet_too_big(1400, &sent(V6.0, V6.1, 1452)[..48]),
    ] {
        let mut broken = frame;
        let last = broken.len() - 1;
        broken[last] ^= 1;
        let mut port = Port::new(config());
        port.input(&broken, 0);
        assert_eq!(port.stack.take_event(), None);
        assert_eq!(port.stack.counters().malformed, 1);
    }
}

#[test]
fn events_are_bounded() {
    let mut port = Port::new(config());
    for peer in 1..5000u16 {
        let peer = format!("198.51.100.7:{peer}");
        port.input(&fragmentation_needed(1400, &sent(V4.0, &peer, 1452)[..28]), 0);
    }
    let events = std::iter::from_fn(|| port.stack.take_event()).count();
    assert_eq!(events, 64);
    assert_eq!(port.stack.counters().rate_limited, 4999 - 64);
}

#[test]
fn link_local_peers_have_the_scope_of_the_port() {
    let mut config = config();
    config.addresses.push(("fe80::1".parse().unwrap(), 64));
    config.scope_id = 7;
    let mut port = Port::new(config);
    let quote = sent("[fe80::1]:443", "[fe80::9]:5000", 1452);
    let frame = packet_too_big(1400, &quote[..48]);
    port.input(&frame, 0);
    let Some(StackEvent::TooBig { local, peer, .. }) = port.stack.take_event() else {
        panic!("no event from {HOST_V6}");
    };
    assert_eq!(local, "[fe80::1%7]:443".parse().unwrap());
    assert_eq!(peer, "[fe80::9%7]:5000".parse().unwrap());
}
