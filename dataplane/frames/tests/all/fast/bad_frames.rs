//! Frames that are dropped, each by its reason.

use sluicegate_frames::{ChecksumState, DropReason, FrameParser, RxChecksums, Verdict};

use crate::fast::fixture::{
    IP, UDP_V4, UDP_V6, arp_request, config, dropped, extended, parse, seal_ip, seal_udp, tagged,
    v4, v6, with,
};

fn payload(case: &str, frame: &[u8]) -> Vec<u8> {
    match parse(None, frame) {
        Verdict::Udp(udp) => frame[udp.payload].to_vec(),
        other => panic!("{case}: {other:?}"),
    }
}

#[test]
fn frames_cut_short_at_any_byte_are_truncated() {
    let arp = arp_request([192, 0, 2, 1]);
    let options = extended(60, &[17, 0, 1, 4, 0, 0, 0, 0]);
    let tagged = tagged(&v4(b"payload"), 0x8100, 0);
    for whole in [v4(b"payload"), v6(b"payload"), arp, options, tagged] {
        assert!(!matches!(parse(None, &whole), Verdict::Dropped(_)));
        for len in 0..whole.len() {
            dropped(&format!("{len} bytes"), &whole[..len], DropReason::Truncated);
        }
    }
}

#[test]
fn malformed_headers_are_refused() {
    for (case, frame) in [
        ("IPv4 of 16 bytes", seal_ip(with(v4(b"x"), IP, &[0x44]))),
        ("IPv6 in IPv4's EtherType", with(v4(b"x"), IP, &[0x65])),
        ("IPv4 in IPv6's EtherType", with(v6(b"x"), IP, &[0x40])),
    ] {
        dropped(case, &frame, DropReason::Header);
    }
    let long = with(v4(b"x"), IP, &[0x4f]);
    dropped("longer than the packet", &long, DropReason::Length);
}

#[test]
fn ipv4_lengths_that_lie_are_refused() {
    for (len, reason) in [
        (0, DropReason::Length),
        (19, DropReason::Length),
        (20, DropReason::Truncated),
        (27, DropReason::Truncated),
        (28, DropReason::Length),
        (34, DropReason::Length),
        (36, DropReason::Truncated),
        (255, DropReason::Truncated),
    ] {
        let frame = seal_ip(with(v4(b"payload"), IP + 2, &[0, len]));
        dropped(&format!("{len} of 35"), &frame, reason);
    }
}

#[test]
fn ipv6_lengths_that_lie_are_refused() {
    for (len, reason) in [
        (0, DropReason::Truncated),
        (7, DropReason::Truncated),
        (8, DropReason::Length),
        (14, DropReason::Length),
        (16, DropReason::Truncated),
        (255, DropReason::Truncated),
    ] {
        let frame = with(v6(b"payload"), IP + 4, &[0, len]);
        dropped(&format!("{len} of 15"), &frame, reason);
    }
}

#[test]
fn udp_lengths_that_lie_are_refused() {
    for len in [0u16, 1, 7, 16, 17, 256, 65535] {
        for (frame, at) in [(v4(b"payload"), UDP_V4), (v6(b"payload"), UDP_V6)] {
            let frame = with(frame, at + 4, &len.to_be_bytes());
            dropped(&format!("{len} of 15"), &frame, DropReason::Length);
        }
    }
}

#[test]
fn padding_and_bytes_behind_the_lengths_are_skipped() {
    for frame in [v4(b"x"), v6(b"x")] {
        let mut padded = frame;
        padded.resize(padded.len().max(60) + 4, 0xee);
        assert_eq!(payload("padded to 60 bytes, with a checksum", &padded), b"x");
    }
    // A UDP length below the packet's: UDP options follow.
    for (frame, at) in [(v4(b"payload"), UDP_V4), (v6(b"payload"), UDP_V6)] {
        let shorter = seal_udp(with(frame, at + 4, &[0, 8 + 3]), at);
        assert_eq!(payload("UDP options", &shorter), b"pay");
    }
    assert_eq!(payload("no payload", &v4(b"")), b"");
}

#[test]
fn wrong_checksums_are_refused_unless_the_port_vouches() {
    let broken = [
        ("IPv4 header", with(v4(b"payload"), IP + 8, &[63])),
        ("UDP over IPv4", with(v4(b"payload"), UDP_V4 + 8, b"q")),
        ("UDP over IPv6", with(v6(b"payload"), UDP_V6 + 8, b"q")),
        ("last odd byte", with(v6(b"payload"), UDP_V6 + 14, b"q")),
        ("other address", with(v6(b"payload"), IP + 8 + 15, &[8])),
    ];
    let parser = FrameParser::new(&config(None));
    for (case, frame) in broken {
        dropped(case, &frame, DropReason::Checksum);
        let intact = RxChecksums { ip: ChecksumState::Intact, udp: ChecksumState::Intact };
        assert!(matches!(parser.parse(&frame, intact), Verdict::Udp(_)), "{case}");
    }
    for (ip, udp) in [
        (ChecksumState::Wrong, ChecksumState::Unknown),
        (ChecksumState::Unknown, ChecksumState::Wrong),
    ] {
        let verdict = parser.parse(&v4(b"payload"), RxChecksums { ip, udp });
        assert_eq!(verdict, Verdict::Dropped(DropReason::Checksum));
    }
}

#[test]
fn a_missing_udp_checksum_is_accepted_over_ipv4_only() {
    let frame = with(v4(b"payload"), UDP_V4 + 6, &[0, 0]);
    assert_eq!(payload("none", &frame), b"payload");
    let frame = with(v6(b"payload"), UDP_V6 + 6, &[0, 0]);
    dropped("none over IPv6", &frame, DropReason::Checksum);
    let intact = RxChecksums { ip: ChecksumState::Intact, udp: ChecksumState::Intact };
    let verdict = FrameParser::new(&config(None)).parse(&frame, intact);
    assert_eq!(verdict, Verdict::Dropped(DropReason::Checksum), "vouched");
}

#[test]
fn fragments_are_dropped() {
    for (case, flags) in [
        ("first", [0x20, 0]),
        ("last", [0, 1]),
        ("middle", [0x20, 8]),
        ("offset's highest bit", [0x10, 0]),
    ] {
        let frame = seal_ip(with(v4(b"payload"), IP + 6, &flags));
        dropped(case, &frame, DropReason::Fragment);
    }
    let frame = seal_ip(with(v4(b"payload"), IP + 6, &[0, 0]));
    assert_eq!(payload("neither DF nor a fragment", &frame), b"payload");
    let first = extended(44, &[17, 0, 0, 1, 0, 0, 0, 9]);
    dropped("IPv6", &first, DropReason::Fragment);
    let atomic = extended(44, &[17, 0, 0, 0, 0, 0, 0, 9]);
    dropped("IPv6, the only fragment", &atomic, DropReason::Fragment);
}

#[test]
fn tags_are_those_of_the_configuration() {
    let plain = v4(b"payload");
    let seven = tagged(&plain, 0x8100, 7);
    // The upper four bits are priority and drop eligibility.
    let seven_urgent = tagged(&plain, 0x8100, 0xf007);
    let priority = tagged(&plain, 0x8100, 0xe000);
    let stack = tagged(&seven, 0x8100, 7);
    let service = tagged(&seven, 0x88a8, 7);
    let old = tagged(&seven, 0x9100, 7);
    let cases: [(&str, Option<u16>, &[u8], bool); 14] = [
        ("no tag", None, &plain, true),
        ("priority tag", None, &priority, true),
        ("foreign tag", None, &seven, false),
        ("no tag where one is due", Some(7), &plain, false),
        ("its tag", Some(7), &seven, true),
        ("its tag with a priority", Some(7), &seven_urgent, true),
        ("another tag", Some(8), &seven, false),
        ("priority tag where one is due", Some(7), &priority, false),
        ("stack", Some(7), &stack, false),
        ("stack on a port without tags", None, &tagged(&priority, 0x8100, 0), false),
        ("service tag", Some(7), &service, false),
        ("service tag on a port without tags", None, &service, false),
        ("old stack on a port without tags", None, &old, false),
        ("old stack", Some(7), &old, false),
    ];
    for (case, vlan, frame, accepted) in cases {
        match parse(vlan, frame) {
            Verdict::Udp(udp) if accepted => assert_eq!(&frame[udp.payload], b"payload", "{case}"),
            Verdict::Dropped(DropReason::Vlan) if !accepted => {}
            other => panic!("{case}: {other:?}"),
        }
    }
}

#[test]
fn packets_longer_than_the_mtu_are_dropped() {
    assert_eq!(payload("IPv4", &v4(&[1; 1472])).len(), 1472);
    assert_eq!(payload("IPv6", &v6(&[1; 1452])).len(), 1452);
    for (case, frame) in [
        ("IPv4", v4(&[1; 1473])),
        ("IPv6", v6(&[1; 1453])),
        ("jumbo frame", v4(&[1; 8972])),
        ("largest datagram", v6(&[1; 65527])),
    ] {
        dropped(case, &frame, DropReason::Oversize);
    }
    let jumbogram = extended(0, &[17, 0, 0xc2, 4, 0, 1, 0, 0]);
    let jumbogram = with(jumbogram, IP + 4, &[0, 0]);
    dropped("jumbogram", &jumbogram, DropReason::Oversize);
}

#[test]
fn extension_headers_are_skipped_up_to_a_bound() {
    let pad = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let router_alert = [17, 0, 5, 2, 0, 0, 0, 0];
    let long = |len: u8, bytes: usize| {
        let mut header = vec![17, len];
        header.resize(bytes, 0);
        header
    };
    for (case, first, headers) in [
        ("hop-by-hop", 0, pad(17).to_vec()),
        ("destination options", 60, pad(17).to_vec()),
        ("both", 0, [pad(60), pad(17)].concat()),
        ("router alert", 0, router_alert.to_vec()),
        ("64 bytes", 60, long(7, 64)),
    ] {
        assert_eq!(payload(case, &extended(first, &headers)), b"behind", "{case}");
    }
    for (case, first, headers) in [
        ("72 bytes", 60, long(8, 72)),
        ("2048 bytes stated", 60, long(255, 8)),
        ("three", 0, [pad(60), pad(60), pad(17)].concat()),
        ("hop-by-hop in second place", 60, [pad(0), pad(17)].concat()),
        ("hop-by-hop twice", 0, [pad(0), pad(17)].concat()),
        ("routing", 43, pad(17).to_vec()),
        ("authentication", 51, pad(17).to_vec()),
        ("encryption", 50, pad(17).to_vec()),
        ("mobility", 135, pad(17).to_vec()),
        ("host identity", 139, pad(17).to_vec()),
        ("shim6", 140, pad(17).to_vec()),
        ("option to discard", 60, vec![17, 0, 0x41, 4, 0, 0, 0, 0]),
        ("option to refuse", 60, vec![17, 0, 0x81, 4, 0, 0, 0, 0]),
        ("jumbo option", 0, vec![17, 0, 0xc2, 4, 0, 1, 0, 0]),
        ("option longer than its header", 60, vec![17, 0, 1, 5, 0, 0, 0, 0]),
        ("option without a length", 60, vec![17, 0, 1, 3, 0, 0, 0, 1]),
    ] {
        dropped(case, &extended(first, &headers), DropReason::ExtensionHeader);
    }
    for (case, next) in [("nothing", 59), ("TCP", 6), ("unknown", 253)] {
        dropped(case, &extended(60, &pad(next)), DropReason::Protocol);
    }
}
