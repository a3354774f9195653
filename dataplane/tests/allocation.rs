//! In steady state no driver allocates.
#![expect(unsafe_code, reason = "a global allocator is unsafe by its trait")]
#![expect(clippy::unwrap_used, reason = "what can't be set up fails the test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use sluicegate_dataplane::{
    Backend, Dataplane, Driver, DriverOptions, Ecn, ListenerId, SocketOptions, TxMeta, bind_group,
    memory, open,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting per thread.
struct Counting;

// SAFETY: every call is the system allocator's, with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller warrants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller warrants.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sends trains and single datagrams `rounds` times and receives them all.
fn exchange(sender: &mut Driver, receiver: &mut Driver, meta: TxMeta, rounds: usize) {
    let mut arrived = 0;
    for round in 0..rounds {
        let mut left = 3;
        sender
            .transmit(8, |buffer| {
                left -= 1;
                buffer[..meta.len].fill(3);
                let len = if round % 2 == 0 {
                    meta.len
                } else {
                    meta.segment
                };
                (left >= 0).then_some(TxMeta { len, ..meta })
            })
            .unwrap();
        receiver.wait(Some(Duration::from_millis(20))).unwrap();
        arrived += receiver.receive(64, |_, _| ()).unwrap();
        sender.wait(Some(Duration::ZERO)).unwrap();
    }
    assert!(arrived >= rounds, "{arrived} of {rounds}");
}

fn check(name: &str, sender: &mut Driver, receiver: &mut Driver, meta: TxMeta) {
    exchange(sender, receiver, meta, 200);
    let before = ALLOCATIONS.get();
    assert!(before > 0, "the allocator counts");
    exchange(sender, receiver, meta, 2000);
    assert_eq!(ALLOCATIONS.get() - before, 0, "{name}");
}

#[test]
fn steady_traffic_allocates_nothing() {
    let listener = ListenerId(0);
    let mut meta = TxMeta {
        listener,
        peer: "127.0.0.1:2".parse().unwrap(),
        local: None,
        ecn: Ecn::Ect0,
        len: 6000,
        segment: 1200,
    };
    let (sender, receiver) = memory::pair("127.0.0.1:1".parse().unwrap(), meta.peer);
    let (mut sender, mut receiver) = (Driver::Memory(sender), Driver::Memory(receiver));
    check("memory", &mut sender, &mut receiver, meta);
    for backend in [Backend::Mio, Backend::Auto] {
        let mut drivers = [0, 1].map(|_| {
            let address = "127.0.0.1:0".parse().unwrap();
            let bound = bind_group(listener, address, 1, &SocketOptions::default()).unwrap();
            meta.peer = bound[0].local_addr();
            open(backend, &DriverOptions::default(), bound)
                .unwrap()
                .driver
        });
        let [sender, receiver] = &mut drivers;
        let name = receiver.caps().backend;
        check(name, sender, receiver, meta);
    }
}
