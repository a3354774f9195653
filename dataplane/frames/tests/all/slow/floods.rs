//! More than any network sends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use sluicegate_frames::{MacAddr, PortConfig, Resolution};

use crate::slow::fixture::{
    HOST_MAC, HOST_V4, OWN_V4, PORT_MAC, Port, STRANGER_MAC, arp_frame, config, ethernet, icmpv6,
    solicitation,
};

fn with_gateway() -> Port {
    let config = PortConfig {
        addresses: vec![(Ipv4Addr::new(10, 0, 0, 1).into(), 8), (OWN_V4.into(), 24)],
        gateways: vec![HOST_V4.into()],
        ..config()
    };
    let mut port = Port::new(config);
    port.input(&arp_frame(2, (HOST_MAC, HOST_V4)), 0);
    port.sent.clear();
    port
}

#[test]
fn requests_of_strangers_are_answered_up_to_a_rate() {
    let mut port = with_gateway();
    for host in 0..100_000u32 {
        let stranger = (STRANGER_MAC, Ipv4Addr::from_bits(0x0a00_0002 + host));
        port.input(&arp_frame(1, stranger), u64::from(host / 1000));
    }
    let counters = port.stack.counters();
    assert!((250..350).contains(&port.sent.len()), "{}", port.sent.len());
    assert_eq!(counters.arp_replies + counters.rate_limited, 100_000);
    port.sent.clear();
    port.input(&arp_frame(1, (HOST_MAC, HOST_V4)), 100);
    assert_eq!(port.sent.len(), 1, "the gateway is answered nevertheless");
}

#[test]
fn solicitations_are_answered_up_to_a_rate() {
    let mut port = Port::new(config());
    for host in 0..50_000u128 {
        let stranger = Ipv6Addr::from_bits((0x2001_0db8 << 96) + 0x1000 + host);
        port.input(&solicitation((STRANGER_MAC, None), stranger, 255), 0);
    }
    assert_eq!(port.sent.len(), 250);
}

#[test]
fn echo_requests_are_answered_up_to_a_rate() {
    let mut port = Port::new(config());
    let own = config().addresses[1].0;
    let IpAddr::V6(own) = own else {
        panic!("IPv6 stands second");
    };
    let message = smoltcp::wire::Icmpv6Repr::EchoRequest { ident: 1, seq_no: 1, data: b"ping" };
    let packet = icmpv6(("2001:db8::9".parse().unwrap(), own), 64, &message);
    let frame = ethernet(PORT_MAC, HOST_MAC, 0x86dd, &packet);
    for now in 0..1000 {
        for _ in 0..10 {
            port.input(&frame, now);
        }
    }
    let counters = port.stack.counters();
    assert_eq!(counters.echo_replies, 100 + 199);
    assert_eq!(counters.rate_limited, 10_000 - 299);
}

#[test]
fn resolving_many_hosts_evicts_no_gateway_and_asks_at_a_rate() {
    let mut port = with_gateway();
    let far = "198.51.100.1".parse().unwrap();
    for host in 0..20_000u32 {
        let now = u64::from(host / 10);
        let near = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0002 + host));
        assert_eq!(port.stack.resolve(near, now), Resolution::Asked);
        port.poll(now);
        // Every host answers; those that were evicted before they were asked are ignored.
        let sender = (STRANGER_MAC, Ipv4Addr::from_bits(0x0a00_0002 + host));
        port.input(&arp_frame(2, sender), now);
    }
    assert!(port.sent.len() < 300, "2 s: {} questions", port.sent.len());
    assert_eq!(port.stack.resolve(far, 2000), Resolution::Known(HOST_MAC));
    let known = port.stack.take_resolved().unwrap();
    assert_eq!(known.get(HOST_V4.into()), Some(HOST_MAC));
    assert!(known.len() <= 257, "{}", known.len());
}

#[test]
fn gateways_are_asked_for_while_strangers_use_up_the_questions() {
    let gateway = Ipv4Addr::new(192, 0, 2, 254);
    let config = PortConfig {
        addresses: vec![(Ipv4Addr::new(10, 0, 0, 1).into(), 8), (OWN_V4.into(), 24)],
        gateways: vec![gateway.into()],
        ..config()
    };
    let mut port = Port::new(config);
    let asked = |port: &mut Port| {
        let sent = std::mem::take(&mut port.sent);
        let of_gateway = |frame: &&Vec<u8>| frame.get(38..42) == Some(&gateway.octets());
        sent.iter().filter(of_gateway).count()
    };
    // Addresses in front of the gateway's, more than there are questions for.
    for second in 1..=2u32 {
        for host in 0..200 {
            let near = Ipv4Addr::from_bits(0x0a00_0002 + second * 1000 + host);
            port.stack.resolve(near.into(), u64::from(second) * 1000 - 1);
        }
        port.poll(u64::from(second) * 1000);
        assert_eq!(asked(&mut port), 1, "second {second}");
    }
}

#[test]
fn hosts_that_do_not_exist_displace_no_neighbour() {
    let mut port = with_gateway();
    let neighbor = Ipv4Addr::new(10, 0, 0, 9);
    port.stack.resolve(neighbor.into(), 0);
    port.poll(0);
    port.input(&arp_frame(2, (HOST_MAC, neighbor)), 0);
    for host in 0..20_000u32 {
        let near = Ipv4Addr::from_bits(0x0a01_0000 + host);
        port.stack.resolve(near.into(), 1 + u64::from(host / 10));
        port.poll(1 + u64::from(host / 10));
    }
    let known = port.stack.take_resolved().unwrap();
    assert_eq!(known.get(neighbor.into()), Some(HOST_MAC));
}

proptest! {
    #[test]
    fn no_bytes_make_the_stack_panic(
        frames in vec((0usize..6, vec(any::<u8>(), 0..120), 0u64..5000), 1..20),
    ) {
        let mut port = Port::new(config());
        let mut now = 0;
        for (start, bytes, later) in frames {
            now += later;
            let mut frame = match start {
                0 => vec![],
                1 => arp_frame(1, (HOST_MAC, HOST_V4)),
                2 => arp_frame(2, (HOST_MAC, HOST_V4))[..30].to_vec(),
                3 => solicitation((HOST_MAC, None), "::".parse().unwrap(), 255),
                4 => ethernet(PORT_MAC, HOST_MAC, 0x86dd, &[0x60]),
                _ => ethernet(MacAddr::BROADCAST, HOST_MAC, 0x0800, &[0x45]),
            };
            frame.extend_from_slice(&bytes);
            port.input(&frame, now);
            port.stack.resolve(HOST_V4.into(), now);
            port.poll(now);
            while port.stack.take_event().is_some() {}
        }
    }
}
