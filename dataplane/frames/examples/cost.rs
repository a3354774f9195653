//! Prints what a frame of 1,400 bytes of payload costs: parser and headers, with and without checksums in software, and the
//! station that it goes to.
//!
//! `cargo run --release -p sluicegate-frames --example cost`

use std::hint::black_box;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Instant;

use sluicegate_frames::{
    ChecksumState, FrameParser, IpChecksum, MAX_HEADERS, MacAddr, NextHops, PortConfig,
    RxChecksums, TxChecksums, TxHeader, UdpChecksum, write_headers,
};

/// Frames of a measurement: few, so that some measurements run without an interruption.
const ROUNDS: u32 = 1000;
/// Measurements, of which the shortest counts.
const MEASUREMENTS: usize = 2000;
const PAYLOAD: usize = 1400;

#[expect(clippy::disallowed_methods, reason = "an example has no worker's clock")]
fn now() -> Instant {
    Instant::now()
}

fn measure(what: &str, mut step: impl FnMut()) {
    let best = (0..MEASUREMENTS)
        .map(|_| {
            let start = now();
            for _ in 0..ROUNDS {
                step();
            }
            start.elapsed().as_nanos()
        })
        .min();
    let best = best.unwrap_or_default();
    println!("{what:46} {:4} ns", best / u128::from(ROUNDS));
}

fn main() {
    let own = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    let peer = Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7);
    let config = PortConfig {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        vlan: None,
        mtu: 1500,
        addresses: vec![(own.into(), 64)],
        gateways: vec![],
        neighbors: vec![],
        scope_id: 1,
    };
    let parser = FrameParser::new(&config);
    let mut hops = NextHops::new(Arc::new(config.clone()), [1, 2]);
    let mut number = 0u128;
    measure("note a peer's station and look it up", || {
        number = (number + 1) % 1024;
        let peer = Ipv6Addr::from_bits(peer.to_bits() + number).into();
        hops.on_received(peer, config.mac, 1);
        let _ = black_box(hops.lookup(black_box(peer), 1));
    });
    let header = TxHeader {
        source_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        destination_mac: config.mac,
        vlan: None,
        source: (peer, 5000).into(),
        destination: (own, 443).into(),
        ecn: 1,
        hop_limit: TxHeader::HOP_LIMIT,
    };
    let port = TxChecksums { ip: IpChecksum::Port, udp: UdpChecksum::Port };
    let mut buffer = vec![0x5a; MAX_HEADERS + PAYLOAD];
    let payload = MAX_HEADERS..buffer.len();
    for (what, checksums) in [("in software", TxChecksums::SOFTWARE), ("by the port", port)] {
        measure(&format!("write headers, checksums {what}"), || {
            let frame = write_headers(black_box(&mut buffer), payload.clone(), &header, checksums);
            let _ = black_box(frame);
        });
    }
    let frame = write_headers(&mut buffer, payload, &header, TxChecksums::SOFTWARE);
    let frame = &buffer[frame.unwrap_or_default()];
    let intact = RxChecksums { ip: ChecksumState::Intact, udp: ChecksumState::Intact };
    for (what, checksums) in [("in software", RxChecksums::UNKNOWN), ("by the port", intact)] {
        measure(&format!("parse a frame, checksums {what}"), || {
            let _ = black_box(parser.parse(black_box(frame), checksums));
        });
    }
}
