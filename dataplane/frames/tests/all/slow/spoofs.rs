//! Stations that claim what is not theirs.

use std::net::Ipv4Addr;

use sluicegate_frames::{MacAddr, PortConfig, Resolution};
use smoltcp::wire::NdiscNeighborFlags;

use crate::slow::fixture::{
    HOST_MAC, HOST_V4, HOST_V6, OWN_V4, PORT_MAC, Port, STRANGER_MAC, advertisement, arp,
    arp_frame, config, ethernet, solicitation,
};

const SOLICITED: NdiscNeighborFlags = NdiscNeighborFlags::SOLICITED;

/// Returns a port that has asked for the host, by ARP and NDP.
fn asking() -> Port {
    let mut port = Port::new(config());
    port.stack.resolve(HOST_V4.into(), 0);
    port.stack.resolve(HOST_V6.into(), 0);
    port.poll(0);
    assert_eq!(port.sent.len(), 2);
    port.sent.clear();
    port
}

#[test]
fn replies_that_nobody_asked_for_are_ignored() {
    let mut port = Port::new(config());
    port.input(&arp_frame(2, (STRANGER_MAC, HOST_V4)), 0);
    port.input(&advertisement(STRANGER_MAC, HOST_V6, SOLICITED, 255), 0);
    assert_eq!(port.stack.counters().unsolicited, 2);
    assert_eq!(port.stack.take_resolved(), None);
    assert_eq!(port.stack.resolve(HOST_V4.into(), 1), Resolution::Asked);
    // Not asked yet: the question leaves with the next poll.
    port.input(&arp_frame(2, (STRANGER_MAC, HOST_V4)), 1);
    assert_eq!(port.stack.take_resolved(), None);
}

#[test]
fn requests_teach_the_port_nothing() {
    let mut port = Port::new(config());
    port.input(&arp_frame(1, (STRANGER_MAC, HOST_V4)), 0);
    port.input(&solicitation((STRANGER_MAC, Some(STRANGER_MAC)), HOST_V6, 255), 0);
    assert_eq!(port.sent.len(), 2, "both are answered");
    assert_eq!(port.stack.take_resolved(), None);
}

#[test]
fn the_first_answer_counts_and_later_ones_change_nothing() {
    let mut port = asking();
    port.input(&arp_frame(2, (HOST_MAC, HOST_V4)), 1);
    port.input(&advertisement(HOST_MAC, HOST_V6, SOLICITED, 255), 1);
    port.input(&arp_frame(2, (STRANGER_MAC, HOST_V4)), 2);
    let flags = SOLICITED | NdiscNeighborFlags::OVERRIDE;
    port.input(&advertisement(STRANGER_MAC, HOST_V6, flags, 255), 2);
    for address in [HOST_V4.into(), HOST_V6.into()] {
        assert_eq!(port.stack.resolve(address, 3), Resolution::Known(HOST_MAC));
    }
    let counters = port.stack.counters();
    assert_eq!((counters.answers, counters.unsolicited), (2, 2));
}

#[test]
fn a_known_host_is_asked_at_its_address_before_all_others() {
    let mut port = asking();
    port.input(&arp_frame(2, (HOST_MAC, HOST_V4)), 0);
    port.stack.resolve(HOST_V4.into(), 29_999);
    port.poll(30_000);
    let asked = |port: &Port| {
        let arp = port.sent.iter().filter(|frame| frame[12..14] == [8, 6]);
        arp.map(|frame| frame[..6].to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(asked(&port), [HOST_MAC.0]);
    port.input(&arp_frame(2, (STRANGER_MAC, HOST_V4)), 30_001);
    assert_eq!(port.stack.resolve(HOST_V4.into(), 30_002), Resolution::Known(HOST_MAC));
    // Silent at its address for three seconds: whoever has the address now may answer.
    for now in [31_000, 32_000, 33_000] {
        port.poll(now);
    }
    assert_eq!(asked(&port).last(), Some(&MacAddr::BROADCAST.0.to_vec()));
    assert_eq!(port.stack.resolve(HOST_V4.into(), 33_000), Resolution::Asked);
    let other = MacAddr([2, 0, 0, 0, 0, 3]);
    port.input(&arp_frame(2, (other, HOST_V4)), 33_001);
    assert_eq!(port.known(HOST_V4), Some(other));
}

/// Checks that a port which asks for a host counts each frame as unsolicited, learns nothing and sends nothing.
fn check_unsolicited(cases: &[(&str, Vec<u8>)]) {
    for (case, frame) in cases {
        let mut port = asking();
        port.input(frame, 1);
        assert_eq!(port.stack.counters().unsolicited, 1, "{case}");
        assert_eq!(port.stack.take_resolved(), None, "{case}");
        assert!(port.sent.is_empty(), "{case}");
    }
}

#[test]
fn contradictory_arp_is_ignored() {
    let target = (PORT_MAC, OWN_V4);
    let sender = (HOST_MAC, HOST_V4);
    let cases = [
        (
            "asker is not who sent the frame",
            ethernet(PORT_MAC, STRANGER_MAC, 0x0806, &arp(1, sender, target)),
        ),
        (
            "group as sender",
            ethernet(PORT_MAC, HOST_MAC, 0x0806, &arp(2, (MacAddr::BROADCAST, HOST_V4), target)),
        ),
        (
            "the port as sender",
            ethernet(PORT_MAC, HOST_MAC, 0x0806, &arp(2, (PORT_MAC, HOST_V4), target)),
        ),
        ("reply to all", ethernet(MacAddr::BROADCAST, HOST_MAC, 0x0806, &arp(2, sender, target))),
        (
            "reply for another station",
            ethernet(PORT_MAC, HOST_MAC, 0x0806, &arp(2, sender, (STRANGER_MAC, OWN_V4))),
        ),
        ("sender of another network", arp_frame(2, (HOST_MAC, Ipv4Addr::new(198, 51, 100, 9)))),
        ("request from another network", arp_frame(1, (HOST_MAC, Ipv4Addr::new(198, 51, 100, 9)))),
        ("broadcast as sender", arp_frame(1, (HOST_MAC, Ipv4Addr::BROADCAST))),
        ("nobody as sender of a reply", arp_frame(2, (HOST_MAC, Ipv4Addr::UNSPECIFIED))),
    ];
    check_unsolicited(&cases);
    let mut port = asking();
    port.input(&arp_frame(3, sender), 1);
    assert_eq!(port.stack.counters().ignored, 1, "unknown operation");
}

#[test]
fn a_router_may_answer_with_an_address_that_it_shares() {
    let shared = MacAddr([0, 0, 0x5e, 0, 1, 1]);
    let mut port = asking();
    let target = (PORT_MAC, OWN_V4);
    let packet = arp(2, (shared, HOST_V4), target);
    port.input(&ethernet(PORT_MAC, HOST_MAC, 0x0806, &packet), 1);
    let mut answer = advertisement(shared, HOST_V6, SOLICITED, 255);
    answer[6..12].copy_from_slice(&HOST_MAC.0);
    port.input(&answer, 1);
    let known = port.stack.take_resolved().unwrap();
    assert_eq!(known.get(HOST_V4.into()), Some(shared));
    assert_eq!(known.get(HOST_V6.into()), Some(shared));
}

#[test]
fn contradictory_neighbour_discovery_is_ignored() {
    let far = "2001:db8:1::9".parse().unwrap();
    let nobody = "::".parse().unwrap();
    let stating = |mac| {
        let mut frame = advertisement(mac, HOST_V6, SOLICITED, 255);
        frame[6..12].copy_from_slice(&HOST_MAC.0);
        frame
    };
    let cases = [
        ("answer through a router", advertisement(HOST_MAC, HOST_V6, SOLICITED, 254)),
        (
            "answer to no question",
            advertisement(HOST_MAC, HOST_V6, NdiscNeighborFlags::OVERRIDE, 255),
        ),
        ("answer that states a group", stating(MacAddr::BROADCAST)),
        ("answer that states the port", stating(PORT_MAC)),
        ("question through a router", solicitation((HOST_MAC, None), HOST_V6, 254)),
        (
            "question from another station",
            solicitation((STRANGER_MAC, Some(HOST_MAC)), HOST_V6, 255),
        ),
        ("question from another network", solicitation((HOST_MAC, None), far, 255)),
        ("probe that states an address", solicitation((HOST_MAC, Some(HOST_MAC)), nobody, 255)),
    ];
    check_unsolicited(&cases);
}

#[test]
fn a_stated_gateway_cannot_be_replaced() {
    let config = PortConfig { gateways: vec![HOST_V4.into()], ..config() };
    let mut port = Port::new(config);
    port.input(&arp_frame(2, (HOST_MAC, HOST_V4)), 1);
    for now in 2..1000 {
        port.input(&arp_frame(1, (STRANGER_MAC, HOST_V4)), now);
        port.input(&arp_frame(2, (STRANGER_MAC, HOST_V4)), now);
    }
    let far = "198.51.100.1".parse().unwrap();
    assert_eq!(port.stack.resolve(far, 1000), Resolution::Known(HOST_MAC));
}

#[test]
fn routers_cannot_configure_the_port() {
    // Advertisement and redirect of a router, and a membership query: types 134, 137 and 130.
    for kind in [130, 134, 137] {
        let mut frame = advertisement(HOST_MAC, HOST_V6, SOLICITED, 255);
        frame[14 + 40] = kind;
        let mut port = asking();
        port.input(&frame, 1);
        assert_eq!(port.stack.counters().ignored, 1, "{kind}");
    }
}
