//! Frames that are none for this host, dropped each by its reason, and those of the slow path.

use sluicegate_frames::{DropReason, SlowKind, Verdict};

use crate::fast::fixture::{
    IP, PORT_MAC, UDP_V4, UDP_V6, arp_request, dropped, frame, header, parse, seal_ip, v4, v6, with,
};

#[test]
fn other_protocols_are_dropped() {
    for protocol in [0, 2, 6, 41, 47, 58, 132, 255] {
        let frame = seal_ip(with(v4(b"payload"), IP + 9, &[protocol]));
        dropped(&protocol.to_string(), &frame, DropReason::Protocol);
    }
    for protocol in [1, 2, 4, 6, 41, 59, 132, 255] {
        let frame = with(v6(b"payload"), IP + 6, &[protocol]);
        dropped(&protocol.to_string(), &frame, DropReason::Protocol);
    }
    for ethertype in [0, 46, 0x0600, 0x0842, 0x8847, 0x8863, 0x88cc, 0xffff] {
        let frame = with(v4(b"payload"), 12, &u16::to_be_bytes(ethertype));
        dropped(&format!("{ethertype:x}"), &frame, DropReason::Ethertype);
    }
}

/// Returns a frame with an ICMP message that begins so, over IPv4 or IPv6.
fn icmp(is_v4: bool, first: [u8; 2]) -> Vec<u8> {
    if is_v4 {
        let frame = with(v4(b"payload"), UDP_V4, &first);
        seal_ip(with(frame, IP + 9, &[1]))
    } else {
        let frame = with(v6(b"payload"), UDP_V6, &first);
        with(frame, IP + 6, &[58])
    }
}

#[test]
fn icmp_that_the_stack_acts_upon_goes_the_slow_path() {
    for (is_v4, first, kind) in [
        (true, [8, 0], SlowKind::Echo),
        (true, [3, 4], SlowKind::TooBig),
        (false, [128, 0], SlowKind::Echo),
        (false, [2, 0], SlowKind::TooBig),
        (false, [135, 0], SlowKind::Neighbor),
        (false, [136, 0], SlowKind::Neighbor),
    ] {
        let verdict = parse(None, &icmp(is_v4, first));
        assert_eq!(verdict, Verdict::Slow(kind), "{first:?}");
    }
    let to_group = |kind| {
        let group = "ff02::1:ff00:1".parse::<std::net::Ipv6Addr>().unwrap();
        let frame = with(icmp(false, [kind, 0]), IP + 24, &group.octets());
        with(frame, 0, &[0x33, 0x33, 0xff, 0, 0, 1])
    };
    let asks = Verdict::Slow(SlowKind::Neighbor);
    assert_eq!(parse(None, &to_group(135)), asks);
    let whoever = with(to_group(135), IP + 8, &[0; 16]);
    assert_eq!(parse(None, &whoever), asks, "duplicate address detection");
    for kind in [2, 128, 136] {
        dropped("to a group", &to_group(kind), DropReason::IcmpType);
    }
}

#[test]
fn icmp_of_other_types_is_dropped() {
    for kind in (0..=255).filter(|kind| *kind != 8) {
        dropped("IPv4", &icmp(true, [kind, 0]), DropReason::IcmpType);
    }
    dropped("unreachable port", &icmp(true, [3, 3]), DropReason::IcmpType);
    for kind in (0..=255).filter(|kind| ![2, 128, 135, 136].contains(kind)) {
        dropped("IPv6", &icmp(false, [kind, 0]), DropReason::IcmpType);
    }
    let empty = seal_ip(with(v4(b"payload"), IP + 2, &[0, 20]));
    let empty = seal_ip(with(empty, IP + 9, &[1]));
    dropped("no message", &empty, DropReason::IcmpType);
}

#[test]
fn icmp_to_other_groups_is_dropped() {
    let icmpv6 = with(v6(b"payload"), IP + 6, &[58]);
    // Another host's, all hosts, and the port's low bits in another group.
    for group in ["ff02::1:ff00:2", "ff02::1", "ff02::1:fe00:1", "ff05::1:ff00:1"] {
        let address = group.parse::<std::net::Ipv6Addr>().unwrap();
        let frame = with(icmpv6.clone(), IP + 24, &address.octets());
        let frame = with(frame, 0, &[0x33, 0x33, 0xff, 0, 0, 1]);
        dropped(group, &frame, DropReason::Destination);
    }
}

#[test]
fn destinations_are_addresses_of_the_port() {
    let to = |destination: &str| {
        let source = if destination.starts_with('[') { "[2001:db8::9]:5" } else { "192.0.2.9:5" };
        let addresses = (source.parse().unwrap(), destination.parse().unwrap());
        frame(&header(addresses.0, addresses.1), b"payload")
    };
    for destination in [
        "192.0.2.2:443",
        "192.0.2.255:443",
        "255.255.255.255:443",
        "224.0.0.1:443",
        "127.0.0.1:443",
        "192.0.2.1:0",
        "[2001:db8::2]:443",
        "[ff02::1]:443",
        "[ff02::1:ff00:1]:443",
        "[::1]:443",
        "[::ffff:192.0.2.1]:443",
        "[2001:db8::1]:0",
    ] {
        dropped(destination, &to(destination), DropReason::Destination);
    }
    let mac = with(v4(b"payload"), 0, &[2, 0, 0, 0, 0, 3]);
    dropped("foreign Ethernet address", &mac, DropReason::Destination);
    let broadcast = with(v4(b"payload"), 0, &[0xff; 6]);
    dropped("unicast IP in a broadcast frame", &broadcast, DropReason::Destination);
}

#[test]
fn sources_are_other_hosts() {
    for (source, destination) in [
        ("0.0.0.0:5", "192.0.2.1:443"),
        ("0.1.2.3:5", "192.0.2.1:443"),
        ("127.0.0.1:5", "192.0.2.1:443"),
        ("192.0.2.255:5", "192.0.2.1:443"),
        ("255.255.255.255:5", "192.0.2.1:443"),
        ("224.0.0.1:5", "192.0.2.1:443"),
        ("240.0.0.1:5", "192.0.2.1:443"),
        ("192.0.2.1:443", "192.0.2.1:443"),
        ("[::]:5", "[2001:db8::1]:443"),
        ("[::1]:5", "[2001:db8::1]:443"),
        ("[ff02::1]:5", "[2001:db8::1]:443"),
        ("[::ffff:192.0.2.9]:5", "[2001:db8::1]:443"),
        ("[fe80::1]:5", "[2001:db8::1]:443"),
    ] {
        let header = header(source.parse().unwrap(), destination.parse().unwrap());
        dropped(source, &frame(&header, b"payload"), DropReason::SourceAddress);
    }
    for mac in [PORT_MAC.0, [0; 6], [0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
        let frame = with(v4(b"payload"), 6, &mac);
        dropped("Ethernet address", &frame, DropReason::SourceAddress);
    }
    for source in ["192.0.2.9:0", "[2001:db8::9]:0"] {
        let local = if source.starts_with('[') { "[2001:db8::1]:443" } else { "192.0.2.1:443" };
        let header = header(source.parse().unwrap(), local.parse().unwrap());
        dropped(source, &frame(&header, b"payload"), DropReason::SourcePort);
    }
}

#[test]
fn arp_passes_if_it_concerns_the_port() {
    let verdict = parse(None, &arp_request([192, 0, 2, 1]));
    assert_eq!(verdict, Verdict::Slow(SlowKind::Neighbor));
    let other = arp_request([192, 0, 2, 2]);
    dropped("another's", &other, DropReason::Destination);
    for (at, byte) in [(0, 1), (1, 6), (2, 0x86), (4, 8), (5, 16)] {
        let frame = with(arp_request([192, 0, 2, 1]), IP + at, &[byte]);
        dropped("no Ethernet or no IPv4", &frame, DropReason::Header);
    }
}
