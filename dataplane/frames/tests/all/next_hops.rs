//! Lookup of the next hop for a worker's frames.
#![expect(clippy::unwrap_used, reason = "what can't be set up fails the test")]

use std::net::IpAddr;
use std::sync::Arc;

use sluicegate_frames::{MacAddr, NeighborTable, NextHop, NextHops, PortConfig};

const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const OTHER_ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 4]);
const STRANGER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x66]);

/// On the link, its gateways, and beyond the link.
const NEAR: [&str; 2] = ["192.0.2.9", "2001:db8::9"];
const GATEWAYS: [&str; 2] = ["192.0.2.254", "fe80::ff"];
const FAR: [&str; 2] = ["198.51.100.7", "2001:db8:7::7"];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn hops(gateways: &[&str], neighbors: &[(&str, MacAddr)]) -> NextHops {
    let config = PortConfig {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        vlan: None,
        mtu: 1500,
        addresses: vec![(ip("192.0.2.1"), 24), (ip("2001:db8::1"), 64)],
        gateways: gateways.iter().map(|text| ip(text)).collect(),
        neighbors: neighbors.iter().map(|(text, mac)| (ip(text), *mac)).collect(),
        scope_id: 1,
    };
    assert_eq!(config.check(), Ok(()));
    NextHops::new(Arc::new(config), [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210])
}

#[test]
fn replies_go_where_the_last_frame_came_from() {
    let mut hops = hops(&GATEWAYS, &[]);
    for peer in NEAR.into_iter().chain(FAR).map(ip) {
        hops.on_received(peer, ROUTER, 0);
        assert_eq!(hops.lookup(peer, 29_999), NextHop::Known(ROUTER));
        hops.on_received(peer, OTHER_ROUTER, 1);
        assert_eq!(hops.lookup(peer, 1), NextHop::Known(OTHER_ROUTER), "another router took over");
        assert_eq!(hops.lookup(peer, 30_001), NextHop::Stale(OTHER_ROUTER));
        hops.on_received(peer, OTHER_ROUTER, 30_001);
        assert_eq!(hops.lookup(peer, 60_000), NextHop::Known(OTHER_ROUTER), "renewed");
    }
}

#[test]
fn what_is_not_fresh_is_resolved() {
    let mut hops = hops(&GATEWAYS, &[]);
    for peer in NEAR.into_iter().chain(FAR).map(ip) {
        assert_eq!(hops.lookup(peer, 0), NextHop::Unresolved);
        hops.on_received(peer, STRANGER, 0);
    }
    let resolved = [(NEAR[0], HOST), (NEAR[1], HOST), (GATEWAYS[0], ROUTER), (GATEWAYS[1], ROUTER)];
    let resolved = resolved.map(|(text, mac)| (ip(text), mac)).to_vec();
    hops.set_resolved(NeighborTable::new(resolved));
    for (near, far) in NEAR.into_iter().zip(FAR) {
        assert_eq!(hops.lookup(ip(near), 30_000), NextHop::Known(HOST));
        assert_eq!(hops.lookup(ip(far), 30_000), NextHop::Known(ROUTER));
    }
}

#[test]
fn without_a_gateway_only_received_frames_lead_beyond_the_link() {
    let mut hops = hops(&[], &[]);
    for far in FAR.map(ip) {
        assert_eq!(hops.lookup(far, 0), NextHop::NoRoute);
        hops.on_received(far, ROUTER, 0);
        assert_eq!(hops.lookup(far, 0), NextHop::Known(ROUTER));
        assert_eq!(hops.lookup(far, 1_000_000), NextHop::Stale(ROUTER));
    }
}

#[test]
fn fixed_neighbours_cannot_be_replaced() {
    let fixed = [(NEAR[0], HOST), (NEAR[1], HOST), (GATEWAYS[0], ROUTER), (GATEWAYS[1], ROUTER)];
    let mut hops = hops(&GATEWAYS, &fixed);
    for (near, far) in NEAR.map(ip).into_iter().zip(FAR.map(ip)) {
        for now in 0..3 {
            hops.on_received(near, STRANGER, now);
            hops.on_received(far, STRANGER, now);
        }
        assert_eq!(hops.lookup(near, 3), NextHop::Known(HOST));
        assert_eq!(hops.lookup(far, 3), NextHop::Known(ROUTER));
        hops.on_received(far, ROUTER, 3);
        assert_eq!(hops.lookup(far, 4), NextHop::Known(ROUTER));
    }
    // A neighbour that is not fixed still counts from where it sends.
    let free = ip("192.0.2.10");
    hops.on_received(free, HOST, 0);
    assert_eq!(hops.lookup(free, 0), NextHop::Known(HOST));
}

#[test]
fn a_family_with_a_gateway_that_is_not_fixed_takes_any_router() {
    let mut hops = hops(&["192.0.2.253", "192.0.2.254"], &[("192.0.2.254", ROUTER)]);
    hops.on_received(ip(FAR[0]), OTHER_ROUTER, 0);
    assert_eq!(hops.lookup(ip(FAR[0]), 0), NextHop::Known(OTHER_ROUTER));
    assert_eq!(hops.lookup(ip("198.51.100.8"), 0), NextHop::Known(ROUTER));
}

#[test]
fn a_million_peers_displace_each_other_and_fall_back_to_the_gateway() {
    let mut hops = hops(&GATEWAYS, &[]);
    hops.set_resolved(NeighborTable::new(vec![(ip(GATEWAYS[0]), ROUTER)]));
    let peer = |number: u32| IpAddr::V4((0x4000_0000 + number).into());
    let mut displaced = 0;
    for number in 0..1_000_000u32 {
        hops.on_received(peer(number), OTHER_ROUTER, u64::from(number / 1000));
        assert_eq!(
            hops.lookup(peer(number), u64::from(number / 1000)),
            NextHop::Known(OTHER_ROUTER)
        );
    }
    for number in 0..1_000_000u32 {
        match hops.lookup(peer(number), 1000) {
            NextHop::Known(ROUTER) => displaced += 1,
            NextHop::Known(OTHER_ROUTER) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(displaced, 1_000_000 - 4096);
}

#[test]
fn neighbours_in_use_stay_among_many() {
    let mut hops = hops(&[], &[]);
    let peer = |number: u32| IpAddr::V4((0x4000_0000 + number * 256).into());
    for round in 0..10 {
        for number in 0..2000 {
            hops.on_received(peer(number), HOST, round * 1000);
        }
    }
    let known = (0..2000).filter(|number| hops.lookup(peer(*number), 9999) != NextHop::NoRoute);
    let known = known.count();
    assert!(known > 1800, "half full, sets of 4: {known}");
}

#[test]
fn a_router_cannot_send_for_hosts_of_the_link() {
    let known = |gateway, mac| NeighborTable::new(vec![(ip(gateway), mac)]);
    for ((near, far), gateway) in NEAR.into_iter().zip(FAR).zip(GATEWAYS) {
        for fixed in [&[][..], &[(gateway, ROUTER)]] {
            let mut hops = hops(&GATEWAYS, fixed);
            // Forged beyond the link before the gateway is known, and afterwards: the host is resolved.
            hops.on_received(ip(near), ROUTER, 0);
            hops.set_resolved(known(gateway, ROUTER));
            assert_eq!(hops.lookup(ip(near), 1), NextHop::Stale(ROUTER));
            hops.on_received(ip(near), HOST, 2);
            hops.on_received(ip(near), ROUTER, 2000);
            assert_eq!(hops.lookup(ip(near), 2000), NextHop::Known(HOST));
            hops.on_received(ip(gateway), ROUTER, 2000);
            assert_eq!(hops.lookup(ip(gateway), 2000), NextHop::Known(ROUTER));
        }
        // A router that nobody has named is known by what it forwards.
        let mut hops = hops(&[], &[]);
        hops.on_received(ip(near), HOST, 0);
        hops.on_received(ip(far), OTHER_ROUTER, 1);
        hops.on_received(ip(near), OTHER_ROUTER, 2);
        assert_eq!(hops.lookup(ip(near), 2), NextHop::Known(HOST));
        assert_eq!(hops.lookup(ip(far), 2), NextHop::Known(OTHER_ROUTER));
        let other = if ip(near).is_ipv4() { "192.0.2.10" } else { "2001:db8::10" };
        hops.on_received(ip(other), OTHER_ROUTER, 2);
        assert_eq!(hops.lookup(ip(other), 2), NextHop::Stale(OTHER_ROUTER));
    }
}

#[test]
fn a_resolved_host_of_the_link_is_sent_to_whoever_claims_its_address() {
    let mut hops = hops(&GATEWAYS, &[]);
    hops.set_resolved(NeighborTable::new(vec![(ip(NEAR[0]), HOST)]));
    hops.on_received(ip(NEAR[0]), STRANGER, 0);
    assert_eq!(hops.lookup(ip(NEAR[0]), 0), NextHop::Known(HOST));
}
