//! No driver allocates in steady state.
#![expect(unsafe_code, reason = "a global allocator is unsafe by its trait")]
#![expect(clippy::unwrap_used, reason = "what can't be set up fails the test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use sluicegate_dataplane::{
    Acquired, Backend, Budget, Dataplane, Driver, DriverOptions, Ecn, ListenerId, SocketOptions,
    Steering, TxMeta, memory, open_group, port,
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

/// Sends batches and single datagrams `rounds` times and receives them all.
fn exchange(sender: &mut Driver, receiver: &mut Driver, meta: TxMeta, rounds: usize) {
    let mut arrived = 0;
    for round in 0..rounds {
        sender
            .transmit(Budget::of_datagrams(12), |out| {
                while let Ok(room) = out.room(ListenerId(0), 1200) {
                    // Equal ones in one round, in the next each shorter than the one before.
                    let len = room.len() - (round % 2) * arrived % 100;
                    room[..len].fill(3);
                    out.commit(len, &meta);
                }
            })
            .unwrap();
        receiver.wait(Some(Duration::from_millis(20))).unwrap();
        arrived += receiver.receive(Budget::UNLIMITED, |_, _| ()).unwrap();
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
        peer: "127.0.0.1:2".parse().unwrap(),
        local: None,
        ecn: Ecn::Ect0,
        departure: None,
    };
    let (sender, receiver) = memory::pair("127.0.0.1:1".parse().unwrap(), meta.peer);
    let (mut sender, mut receiver) = (Driver::Memory(sender), Driver::Memory(receiver));
    check("memory", &mut sender, &mut receiver, meta);
    let switch = port::Switch::default();
    let mut ports = ["127.0.0.1:1", "127.0.0.1:2"].map(|address| {
        let listeners = [(listener, address.parse().unwrap())];
        let mut group = port::open_group(&switch, &listeners, 1).unwrap();
        Driver::Port(group.seeds.remove(0).open())
    });
    let [sender, receiver] = &mut ports;
    check("port", sender, receiver, meta);
    for backend in [Backend::Mio, Backend::Auto] {
        let mut drivers = [0, 1].map(|_| {
            let address = "127.0.0.1:0".parse().unwrap();
            let bound = Acquired::bind(listener, address, 1).unwrap();
            meta.peer = bound.local_addr();
            let (socket, driver) = (SocketOptions::default(), DriverOptions::default());
            let mut group =
                open_group(backend, vec![bound], 1, Steering::Hash, &socket, driver).unwrap();
            group.seeds.remove(0).open().unwrap().driver
        });
        let [sender, receiver] = &mut drivers;
        let name = receiver.backend();
        check(name, sender, receiver, meta);
    }
}
