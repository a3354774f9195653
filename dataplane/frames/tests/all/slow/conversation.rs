//! Hosts of the link find the port, ping it, and are found.

use std::net::{IpAddr, Ipv6Addr};

use sluicegate_frames::{
    FrameParser, MacAddr, PortConfig, Resolution, RxChecksums, SlowKind, Verdict,
};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpPacket, Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpAddress, NdiscNeighborFlags,
};

use crate::slow::fixture::{
    HOST_MAC, HOST_V4, HOST_V6, OWN_V4, OWN_V6, PORT_MAC, Port, advertisement, arp_frame, config,
    solicitation,
};
use crate::slow::host::Host;

fn host() -> Host {
    Host::new(HOST_MAC, &[(HOST_V4.into(), 24), (HOST_V6.into(), 64)])
}

fn tag(frame: &[u8], vlan: u8) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, vlan], &frame[12..]].concat()
}

/// Carries frames between port and host until there are none.
fn exchange(port: &mut Port, host: &mut Host, vlan: Option<u8>, now: u64) {
    loop {
        port.poll(now);
        for frame in port.sent.drain(..) {
            let untagged = match vlan {
                Some(vlan) => {
                    assert_eq!(frame[12..16], [0x81, 0, 0, vlan]);
                    [&frame[..12], &frame[16..]].concat()
                }
                None => frame,
            };
            assert!(untagged.len() >= 60, "padded");
            host.cable.to_host.push_back(untagged);
        }
        host.poll(now);
        if host.cable.from_host.is_empty() {
            return;
        }
        for frame in std::mem::take(&mut host.cable.from_host) {
            let frame = vlan.map_or(frame.clone(), |vlan| tag(&frame, vlan));
            port.input(&frame, now);
        }
    }
}

fn echo_v4(len: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..=255).cycle().take(len).collect();
    let message = Icmpv4Repr::EchoRequest { ident: Host::ident(), seq_no: 7, data: &data };
    let mut bytes = vec![0; message.buffer_len()];
    let mut packet = Icmpv4Packet::new_unchecked(&mut bytes[..]);
    message.emit(&mut packet, &ChecksumCapabilities::default());
    bytes
}

fn echo_v6(len: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..=255).cycle().take(len).collect();
    let message = Icmpv6Repr::EchoRequest { ident: Host::ident(), seq_no: 7, data: &data };
    let mut bytes = vec![0; message.buffer_len()];
    let mut packet = Icmpv6Packet::new_unchecked(&mut bytes[..]);
    let checksums = ChecksumCapabilities::default();
    message.emit(&HOST_V6, &OWN_V6, &mut packet, &checksums);
    bytes
}

#[test]
fn a_host_finds_the_port_and_its_pings_return() {
    for vlan in [None, Some(7)] {
        for len in [0, 1, 56, 1400] {
            let config = PortConfig { vlan: vlan.map(u16::from), ..config() };
            let (mut port, mut host) = (Port::new(config), host());
            host.send(&echo_v4(len), IpAddress::Ipv4(OWN_V4));
            host.send(&echo_v6(len), IpAddress::Ipv6(OWN_V6));
            // smoltcp asks for one neighbour a second.
            for now in [0, 1500, 3000] {
                exchange(&mut port, &mut host, vlan, now);
            }
            let replies = host.received();
            let parts: Vec<_> = replies.iter().map(|reply| (reply[0], reply.len())).collect();
            assert_eq!(parts, [(0, 8 + len), (129, 8 + len)], "{len} bytes");
            assert_eq!(replies[0][8..], echo_v4(len)[8..]);
            assert_eq!(replies[1][4..], echo_v6(len)[4..]);
            let counters = port.stack.counters();
            assert_eq!(counters.echo_replies, 2);
            assert!(counters.arp_replies > 0 && counters.ndp_replies > 0);
        }
    }
}

#[test]
fn the_port_finds_hosts_of_the_link() {
    let (mut port, mut host) = (Port::new(config()), host());
    for address in [IpAddr::V4(HOST_V4), IpAddr::V6(HOST_V6)] {
        assert_eq!(port.stack.resolve(address, 5), Resolution::Asked);
        exchange(&mut port, &mut host, None, 5);
        assert_eq!(port.known(address), Some(HOST_MAC));
        assert_eq!(port.stack.resolve(address, 6), Resolution::Known(HOST_MAC));
        assert_eq!(port.stack.take_resolved(), None, "only changes are reported");
    }
    assert_eq!(port.stack.counters().answers, 2);
}

#[test]
fn gateways_are_found_without_being_needed_and_stay_known() {
    let config = PortConfig { gateways: vec![HOST_V4.into(), HOST_V6.into()], ..config() };
    let (mut port, mut host) = (Port::new(config), host());
    exchange(&mut port, &mut host, None, 1100);
    let far: IpAddr = "198.51.100.1".parse().unwrap();
    for now in (2000..600_000).step_by(500) {
        exchange(&mut port, &mut host, None, now);
        assert_eq!(port.stack.resolve(far, now), Resolution::Known(HOST_MAC));
    }
    let questions = port.stack.counters().questions;
    assert!((40..60).contains(&questions), "one each per 30 s: {questions}");
}

#[test]
fn hosts_that_are_not_used_are_forgotten() {
    let (mut port, mut host) = (Port::new(config()), host());
    port.stack.resolve(HOST_V4.into(), 0);
    exchange(&mut port, &mut host, None, 0);
    assert_eq!(port.known(HOST_V4), Some(HOST_MAC));
    let due = port.stack.next_timer().unwrap();
    exchange(&mut port, &mut host, None, due);
    assert_eq!(port.stack.take_resolved(), Some(Default::default()));
    assert_eq!(port.stack.counters().questions, 1);
}

#[test]
fn a_silent_host_is_asked_three_times_then_left_alone() {
    let mut port = Port::new(config());
    assert_eq!(port.stack.resolve(HOST_V4.into(), 0), Resolution::Asked);
    let mut asked = vec![];
    for now in 0..4000 {
        port.poll(now);
        if !port.sent.is_empty() {
            asked.push(now);
            port.sent.clear();
        }
    }
    assert_eq!(asked, [0, 1000, 2000]);
    assert_eq!(port.stack.resolve(HOST_V4.into(), 4000), Resolution::Silent);
    port.poll(8000);
    assert_eq!(port.stack.resolve(HOST_V4.into(), 8000), Resolution::Asked);
}

#[test]
fn destinations_without_a_way_have_no_route() {
    let far: IpAddr = "198.51.100.1".parse().unwrap();
    let mut port = Port::new(config());
    assert_eq!(port.stack.resolve(far, 0), Resolution::NoRoute);
    let only_v4 = PortConfig { addresses: vec![(OWN_V4.into(), 24)], ..config() };
    let link_local: IpAddr = "fe80::9".parse().unwrap();
    let mut port = Port::new(only_v4);
    assert_eq!(port.stack.resolve(link_local, 0), Resolution::NoRoute);
}

#[test]
fn fixed_neighbours_are_never_asked() {
    let config = PortConfig {
        gateways: vec![HOST_V4.into()],
        neighbors: vec![(HOST_V4.into(), HOST_MAC)],
        ..config()
    };
    let mut port = Port::new(config);
    let far = "198.51.100.1".parse().unwrap();
    assert_eq!(port.stack.resolve(far, 9), Resolution::Known(HOST_MAC));
    port.input(&arp_frame(2, (MacAddr([2; 6]), HOST_V4)), 9);
    port.poll(100_000);
    assert_eq!(port.stack.resolve(far, 100_000), Resolution::Known(HOST_MAC));
    assert_eq!(port.stack.counters().questions, 0);
}

#[test]
fn addresses_are_announced_when_the_link_comes_up() {
    let mut port = Port::new(config());
    port.stack.on_link_up(50);
    assert_eq!(port.stack.next_timer(), Some(50));
    port.poll(50);
    let [arp, ndp, mld] = &port.sent[..] else {
        panic!("{} frames", port.sent.len());
    };
    assert_eq!(arp[..6], [0xff; 6]);
    let packet = ArpPacket::new_checked(&arp[14..]).unwrap();
    assert_eq!(packet.source_protocol_addr(), packet.target_protocol_addr());
    assert_eq!(ndp[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(ndp[14 + 40], 136);
    let icmp = Icmpv6Packet::new_checked(&mld[14 + 48..14 + 48 + 28]).unwrap();
    let source = Ipv6Addr::UNSPECIFIED;
    let routers = "ff02::16".parse().unwrap();
    assert!(icmp.verify_checksum(&source, &routers), "MLD report");
    assert_eq!(
        mld[14 + 48 + 12..14 + 48 + 28],
        "ff02::1:ff00:1".parse::<Ipv6Addr>().unwrap().octets()
    );
    port.sent.clear();
    port.poll(51);
    assert!(port.sent.is_empty(), "once");
    port.poll(125_050);
    assert_eq!(port.sent.len(), 1, "membership is reported again");
}

#[test]
fn probes_for_an_address_in_use_are_answered() {
    let mut port = Port::new(config());
    port.input(&arp_frame(1, (HOST_MAC, "0.0.0.0".parse().unwrap())), 0);
    assert_eq!(port.sent.len(), 1, "ARP probe");
    port.sent.clear();
    port.input(&solicitation((HOST_MAC, None), Ipv6Addr::UNSPECIFIED, 255), 0);
    assert_eq!(port.sent[0][..6], [0x33, 0x33, 0, 0, 0, 1], "to all hosts");
    assert_eq!(port.stack.counters().ndp_replies, 1);
}

#[test]
fn another_station_with_the_ports_address_is_counted() {
    let mut port = Port::new(config());
    port.input(&arp_frame(1, (HOST_MAC, OWN_V4)), 0);
    let flags = NdiscNeighborFlags::OVERRIDE;
    port.input(&advertisement(HOST_MAC, OWN_V6, flags, 255), 0);
    // The parser drops packets that come from the port's own addresses.
    assert_eq!(port.stack.counters().address_conflicts, 1);
    assert!(port.sent.is_empty());
}

#[test]
fn replies_and_questions_of_the_stack_are_frames_of_the_port() {
    let (mut port, mut host) = (Port::new(config()), host());
    host.send(&echo_v4(56), IpAddress::Ipv4(OWN_V4));
    host.poll(0);
    for frame in std::mem::take(&mut host.cable.from_host) {
        let verdict = FrameParser::new(&config()).parse(&frame, RxChecksums::UNKNOWN);
        let is_arp = frame[12..14] == [8, 6];
        let kind = if is_arp { SlowKind::Neighbor } else { SlowKind::Echo };
        assert_eq!(verdict, Verdict::Slow(kind));
        port.input(&frame, 0);
    }
    for frame in &port.sent {
        assert_eq!(frame[6..12], PORT_MAC.0);
    }
    assert!(!port.sent.is_empty());
}
