//! Nothing is allocated per frame, fast path or slow.
#![expect(unsafe_code, reason = "a global allocator is unsafe by its trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use sluicegate_frames::{
    FrameParser, MAX_HEADERS, MacAddr, NextHop, NextHops, PortConfig, RxChecksums, Stack,
    TxChecksums, TxHeader, Verdict, write_headers,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting calls and bytes in use per thread.
struct Counting;

// SAFETY: every call is the system allocator's, with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        BYTES.with(|bytes| bytes.set(bytes.get().wrapping_add(layout.size())));
        // SAFETY: as the caller warrants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.with(|bytes| bytes.set(bytes.get().wrapping_sub(layout.size())));
        // SAFETY: as the caller warrants.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PORT: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn config() -> Arc<PortConfig> {
    Arc::new(PortConfig {
        mac: PORT,
        vlan: None,
        mtu: 1500,
        addresses: vec![(Ipv4Addr::new(10, 0, 0, 1).into(), 8)],
        gateways: vec![],
        neighbors: vec![],
        scope_id: 1,
    })
}

#[test]
fn frames_of_datagrams_cost_no_allocation() {
    let config = config();
    let (parser, mut hops) =
        (FrameParser::new(&config), NextHops::new(Arc::clone(&config), [1, 2]));
    let mut buffer = vec![7; MAX_HEADERS + 1400];
    let before = ALLOCATIONS.get();
    for number in 0..10_000u16 {
        let header = TxHeader {
            source_mac: HOST,
            destination_mac: PORT,
            vlan: None,
            source: (Ipv4Addr::from_bits(0x0a00_0100 + u32::from(number)), 5).into(),
            destination: (Ipv4Addr::new(10, 0, 0, 1), 443).into(),
            ecn: 1,
            hop_limit: TxHeader::HOP_LIMIT,
        };
        let payload = MAX_HEADERS..buffer.len();
        let frame = write_headers(&mut buffer, payload, &header, TxChecksums::SOFTWARE).unwrap();
        let verdict = parser.parse(&buffer[frame], RxChecksums::UNKNOWN);
        let Verdict::Udp(udp) = verdict else {
            panic!("{verdict:?}");
        };
        hops.on_received(udp.peer.ip(), udp.source_mac, 0);
        assert_eq!(hops.lookup(udp.peer.ip(), 0), NextHop::Known(HOST));
    }
    assert_eq!(ALLOCATIONS.get(), before);
}

#[test]
fn floods_of_arp_cost_no_memory() {
    let mut stack = Stack::new(config());
    stack.poll(0, &mut |_| ());
    let mut frame = [&[0xff; 6][..], &HOST.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &HOST.0].concat();
    frame.extend([10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
    let before = ALLOCATIONS.get();
    let mut sent = 0;
    for number in 0..100_000u32 {
        frame[28..32].copy_from_slice(&(0x0a00_0002 + number).to_be_bytes());
        stack.input(&frame, u64::from(number / 1000), &mut |_| sent += 1);
    }
    assert!(sent > 200, "{sent} replies");
    assert_eq!(ALLOCATIONS.get(), before, "requests");
}

#[test]
fn a_stack_that_asks_for_many_hosts_stays_small() {
    let mut stack = Stack::new(config());
    let before = BYTES.get();
    for number in 0..10_000u32 {
        let host = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0002 + number));
        stack.resolve(host, u64::from(number));
        stack.poll(u64::from(number), &mut |_| ());
    }
    let grown = BYTES.get().wrapping_sub(before);
    assert!(grown < 64 * 1024, "{grown} bytes");
}
