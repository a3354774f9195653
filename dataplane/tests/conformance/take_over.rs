//! The sockets of a process go over to another one that has more workers, and back.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use sluicegate_dataplane::{
    Acquired, Budget, Dataplane, DriverOptions, Seed, SocketOptions, open_group,
};

use crate::node::Node;
use crate::rig::{FIRST, Role, STEERING, Shape, World, each};

/// Workers of the newer process.
const WORKERS: usize = 3;

/// Returns packets of every kind: to IDs of workers, to those of clients, with short and with long headers.
fn packets() -> impl Iterator<Item = Vec<u8>> {
    (0..60u8).map(|number| {
        let mut packet = vec![number.wrapping_mul(83); 60];
        packet[..6].copy_from_slice(&[0xc1, 0, 0, 0, 1, 8]);
        // Some name a worker, and a short header ends the others' heads earlier.
        packet[6] = if number % 2 == 0 { number % 4 } else { number.wrapping_mul(151) };
        if number % 3 == 0 {
            packet[0] = 0x41;
            packet[1] = number % 4;
        }
        packet
    })
}

/// Checks that each packet reaches the worker who reads the socket that the rule names, of so many.
fn arrive_by_the_rule(workers: &mut [Node], client: &mut Node, sockets: usize, server: SocketAddr) {
    let sockets = u32::try_from(sockets).unwrap();
    for packet in packets() {
        client.send(server, &packet, packet.len());
        let socket = STEERING.socket(sockets, &packet).unwrap() as usize;
        let reader = socket % workers.len();
        assert_eq!(workers[reader].collect(1)[0].bytes, packet);
        for worker in &mut *workers {
            assert_eq!(worker.receive_once(Budget::UNLIMITED, &mut Vec::new()), 0);
        }
    }
}

fn seeds(world: &World, acquired: Acquired, workers: usize) -> Vec<Seed> {
    let backend = world.kind_of(Role::Server).backend().unwrap();
    let (socket, driver) = (SocketOptions::default(), DriverOptions::default());
    open_group(backend, vec![acquired], workers, STEERING, &socket, driver).unwrap().seeds
}

fn set_receiving(workers: &mut [Node], on: bool) {
    for worker in workers {
        worker.driver.set_receiving(on).unwrap();
        worker.driver.wait(Some(Duration::ZERO)).unwrap();
    }
}

/// The kernel's count belongs to the socket, which several drivers read in turn.
#[test]
fn what_the_kernel_drops_counts_once_whichever_process_reads() {
    each(|world| {
        let options = SocketOptions { receive_buffer: 64 << 10, ..SocketOptions::default() };
        let mut older = world.server_with(&["127.0.0.1:0"], options);
        let mut client = world.client(&["127.0.0.1:0"]);
        let (kind, at) = (older.kind, older.address());
        let sockets = older.driver.duplicate_sockets().unwrap();
        let sockets: Vec<OwnedFd> = sockets.into_iter().map(|(_, socket)| socket).collect();
        let (acquired, _taken) = world
            .within(Role::Server, || Acquired::take_over(FIRST, sockets, 1, STEERING).unwrap());
        let backend = world.kind_of(Role::Server).backend().unwrap();
        let driver = DriverOptions::default();
        let group = open_group(backend, vec![acquired], 1, STEERING, &options, driver);
        let driver = group.unwrap().seeds.remove(0).without_receiving().open().unwrap().driver;
        let mut newer = Node::new(kind, driver, vec![at], None);
        let drain = |node: &mut Node| {
            for _ in 0..100 {
                node.driver.wait(Some(Duration::ZERO)).unwrap();
                node.receive_once(Budget::UNLIMITED, &mut Vec::new());
            }
        };
        let drops = |node: &Node| node.driver.counters().rx_overflows;
        let mut nodes = [&mut older, &mut newer];
        let mut total = 0;
        for turn in 0..4 {
            let [reader, other] = &mut nodes;
            let before = drops(other);
            for _ in 0..2000 {
                client.send(at, &[7; 900], 900);
            }
            if turn % 2 == 0 {
                drain(reader);
            }
            set_receiving(std::slice::from_mut(&mut **reader), false);
            set_receiving(std::slice::from_mut(&mut **other), true);
            // The next one gets what has waited, with older counts.
            drain(other);
            assert_eq!(drops(other), before, "in turn {turn}");
            let now = drops(reader) + drops(other);
            assert!(now > total && now < total + 2000, "{now} after {total}");
            total = now;
            nodes.swap(0, 1);
        }
    });
}

#[test]
fn no_socket_gets_a_datagram_before_somebody_is_to_read_it() {
    each(|world| {
        for before in 1..WORKERS {
            let shape = Shape { workers: before, ..Shape::default() };
            let mut older = world.open(Role::Server, &["127.0.0.1:0"], shape).unwrap();
            let mut client = world.client(&["127.0.0.1:0"]);
            let (kind, at) = (older[0].kind, older[0].address());
            let sockets = older.iter().flat_map(|node| node.driver.duplicate_sockets().unwrap());
            let sockets: Vec<OwnedFd> = sockets.map(|(_, socket)| socket).collect();
            let (acquired, taken) = world.within(Role::Server, || {
                Acquired::take_over(FIRST, sockets, WORKERS, STEERING).unwrap()
            });
            assert_eq!((taken.count() as usize, taken.added().len()), (WORKERS, WORKERS - before));
            let newer = seeds(world, acquired, WORKERS).into_iter().map(|seed| {
                let driver = seed.without_receiving().open().unwrap().driver;
                Node::new(kind, driver, vec![at], None)
            });
            let mut newer: Vec<Node> = newer.collect();
            arrive_by_the_rule(&mut older, &mut client, before, at);
            set_receiving(&mut older, false);
            taken.steer().unwrap();
            set_receiving(&mut newer, true);
            arrive_by_the_rule(&mut newer, &mut client, WORKERS, at);
            set_receiving(&mut newer, false);
            let added = taken.added().iter().map(|socket| socket.try_clone().unwrap());
            let added = Acquired::behind(before, FIRST, added.collect()).unwrap();
            for (worker, seed) in older.iter_mut().zip(seeds(world, added, before)) {
                worker.driver.rebind(seed, &[], |_, _| ()).unwrap();
            }
            drop((newer, taken));
            set_receiving(&mut older, true);
            arrive_by_the_rule(&mut older, &mut client, WORKERS, at);
        }
    });
}
