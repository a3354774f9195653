//! Listeners come and go while the driver runs.

use std::net::SocketAddr;

use sluicegate_dataplane::{
    Acquired, Dataplane, DriverOptions, ListenerId, Seed, SocketOptions, open_group,
};

use crate::node::to;
use crate::rig::{FIRST, Role, STEERING, Shape, World, each};

const SECOND: ListenerId = ListenerId(7);
const WORKERS: usize = 2;

/// Returns further sockets for a group of so many workers, as seeds, and their address.
fn seeds(world: &World, workers: usize) -> (Vec<Seed>, SocketAddr) {
    world.within(Role::Server, || {
        let address = world.at(Role::Server, "127.0.0.1:0");
        let acquired = Acquired::bind(SECOND, address, workers).unwrap();
        let address = acquired.local_addr();
        (group(world, vec![acquired], workers), address)
    })
}

fn group(world: &World, acquired: Vec<Acquired>, workers: usize) -> Vec<Seed> {
    let backend = world.kind_of(Role::Server).backend().unwrap();
    let (socket, driver) = (SocketOptions::default(), DriverOptions::default());
    let group = open_group(backend, acquired, workers, STEERING, &socket, driver);
    group.unwrap().seeds
}

#[test]
fn a_listener_that_is_added_receives_and_sends_beside_the_others() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let waker = server.driver.waker();
        let (seeds, second) = seeds(world, 1);
        let peer = to(server.address());
        client.send_with(FIRST, &peer, b"before", 6);
        let mut held = Vec::new();
        for seed in seeds {
            let sink = |_: &_, bytes: &mut [u8]| held.push(bytes.to_vec());
            server.driver.rebind(seed, &[], sink).unwrap();
        }
        // Whichever driver it reached.
        if held.is_empty() {
            held.extend(server.collect(1).into_iter().map(|d| d.bytes));
        }
        assert_eq!(held, [b"before"]);
        assert_eq!(server.driver.counters().rx_datagrams, 1);
        for (listener, address) in [(SECOND, second), (FIRST, server.address())] {
            client.send_with(FIRST, &to(address), b"after", 5);
            let received = server.collect(1).remove(0);
            assert_eq!((received.meta.listener, received.meta.local), (listener, address));
            server.send_with(listener, &to(received.meta.peer), b"back", 4);
            assert_eq!(client.collect(1)[0].meta.peer, address);
        }
        waker.wake();
        server.driver.wait(None).unwrap();
    });
}

#[test]
fn a_listener_that_is_removed_frees_its_port() {
    each(|world| {
        let mut workers = world.open(
            Role::Server,
            &["127.0.0.1:0"],
            Shape { workers: WORKERS, ..Shape::default() },
        );
        let workers = workers.as_mut().unwrap();
        let (seeds, second) = seeds(world, WORKERS);
        let first = workers[0].address();
        for (worker, seed) in workers.iter_mut().zip(seeds) {
            worker.driver.rebind(seed, &[], |_, _| ()).unwrap();
        }
        let empty = group(world, Vec::new(), WORKERS);
        let bind = || world.within(Role::Server, || Acquired::bind(FIRST, first, WORKERS));
        for (worker, seed) in workers.iter_mut().zip(empty) {
            assert!(bind().is_err());
            worker.driver.rebind(seed, &[FIRST], |_, _| ()).unwrap();
        }
        bind().unwrap();
        // The other one still finds each worker by the connection ID.
        let mut client = world.client(&["127.0.0.1:0"]);
        for (index, worker) in workers.iter_mut().enumerate() {
            let mut datagram = [0xaa; 60];
            datagram[..2].copy_from_slice(&[0x41, u8::try_from(index).unwrap()]);
            client.send(second, &datagram, datagram.len());
            assert_eq!(worker.collect(1)[0].meta.listener, SECOND);
        }
    });
}
