//! Frames that are none for this host, dropped each by its reason, and those of the slow path.

use sluicegate_frames::{DropReason, Verdict};

use crate::fixture::{
    IP, PORT_MAC, arp_request, dropped, frame, header, parse, seal_ip, v4, v6, with,
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

#[test]
fn icmp_goes_the_slow_path() {
    let frame = seal_ip(with(v4(b"payload"), IP + 9, &[1]));
    assert_eq!(parse(None, &frame), Verdict::Slow);
    let icmpv6 = with(v6(b"payload"), IP + 6, &[58]);
    assert_eq!(parse(None, &icmpv6), Verdict::Slow);
    let group = "ff02::1:ff00:1".parse::<std::net::Ipv6Addr>().unwrap();
    let solicited = with(icmpv6.clone(), IP + 24, &group.octets());
    let solicited = with(solicited, 0, &[0x33, 0x33, 0xff, 0, 0, 1]);
    assert_eq!(parse(None, &solicited), Verdict::Slow);
    let whoever = with(solicited, IP + 8, &[0; 16]);
    assert_eq!(
        parse(None, &whoever),
        Verdict::Slow,
        "duplicate address detection"
    );
    let unspecified = with(icmpv6, IP + 8, &[0; 16]);
    dropped(
        "unspecified to one",
        &unspecified,
        DropReason::SourceAddress,
    );
}

#[test]
fn icmp_to_other_groups_is_dropped() {
    let icmpv6 = with(v6(b"payload"), IP + 6, &[58]);
    // Another host's, all hosts, and the port's low bits in another group.
    for group in [
        "ff02::1:ff00:2",
        "ff02::1",
        "ff02::1:fe00:1",
        "ff05::1:ff00:1",
    ] {
        let address = group.parse::<std::net::Ipv6Addr>().unwrap();
        let frame = with(icmpv6.clone(), IP + 24, &address.octets());
        let frame = with(frame, 0, &[0x33, 0x33, 0xff, 0, 0, 1]);
        dropped(group, &frame, DropReason::Destination);
    }
}

#[test]
fn destinations_are_addresses_of_the_port() {
    let to = |destination: &str| {
        let source = if destination.starts_with('[') {
            "[2001:db8::9]:5"
        } else {
            "192.0.2.9:5"
        };
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
    dropped(
        "unicast IP in a broadcast frame",
        &broadcast,
        DropReason::Destination,
    );
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
        dropped(
            source,
            &frame(&header, b"payload"),
            DropReason::SourceAddress,
        );
    }
    for mac in [PORT_MAC.0, [0; 6], [0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
        let frame = with(v4(b"payload"), 6, &mac);
        dropped("Ethernet address", &frame, DropReason::SourceAddress);
    }
    for source in ["192.0.2.9:0", "[2001:db8::9]:0"] {
        let local = if source.starts_with('[') {
            "[2001:db8::1]:443"
        } else {
            "192.0.2.1:443"
        };
        let header = header(source.parse().unwrap(), local.parse().unwrap());
        dropped(source, &frame(&header, b"payload"), DropReason::SourcePort);
    }
}

#[test]
fn arp_passes_if_it_concerns_the_port() {
    assert_eq!(parse(None, &arp_request([192, 0, 2, 1])), Verdict::Slow);
    let other = arp_request([192, 0, 2, 2]);
    dropped("another's", &other, DropReason::Destination);
    for (at, byte) in [(0, 1), (1, 6), (2, 0x86), (4, 8), (5, 16)] {
        let frame = with(arp_request([192, 0, 2, 1]), IP + at, &[byte]);
        dropped("no Ethernet or no IPv4", &frame, DropReason::Header);
    }
}
