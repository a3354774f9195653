//! One port, several workers.

use std::time::Duration;

use sluicegate_dataplane::{Acquired, BindError, Budget, Dataplane, ListenerId, Steering};

use crate::node::{Node, number_of, numbered};
use crate::rig::{FIRST, Role, Shape, each, each_on};
use crate::veth::Terms;

const WORKERS: usize = 4;

/// Returns the shape of a group of so many workers.
fn shared(workers: usize) -> Shape {
    Shape { workers, ..Shape::default() }
}

/// Returns the shape of a group whose connection IDs have the worker's index there.
fn steered(worker_at: u8) -> Shape {
    let shortest = (worker_at + 1).max(8);
    Shape { steering: Steering::ConnectionId { worker_at, shortest }, ..shared(WORKERS) }
}

/// Returns a packet with a short header, whose connection ID has the worker's index at `worker_at`.
fn short(worker_at: u8, worker: usize) -> Vec<u8> {
    let mut datagram = vec![0xaa; 60];
    datagram[0] = 0x41;
    datagram[1 + usize::from(worker_at)] = u8::try_from(worker).unwrap();
    datagram
}

/// Returns a packet with a long header to the shortest such connection ID.
fn long(worker_at: u8, worker: usize) -> Vec<u8> {
    let mut datagram = vec![0xaa; 60];
    datagram[..6].copy_from_slice(&[0xc1, 0, 0, 0, 1, (worker_at + 1).max(8)]);
    datagram[6 + usize::from(worker_at)] = u8::try_from(worker).unwrap();
    datagram
}

/// Sends each of these datagrams three times, and checks that all three arrive at one worker.
fn arrive_at_one(workers: &mut [Node], client: &mut Node, datagrams: &[Vec<u8>]) {
    let address = workers[0].address();
    for datagram in datagrams {
        for _ in 0..3 {
            client.send(address, datagram, datagram.len());
        }
        let mut seen = vec![Vec::new(); workers.len()];
        for _ in 0..500 {
            for (worker, seen) in workers.iter_mut().zip(&mut seen) {
                worker.driver.wait(Some(Duration::from_millis(1))).unwrap();
                worker.receive_once(Budget::of_datagrams(100), seen);
            }
            if seen.iter().map(Vec::len).sum::<usize>() == 3 {
                break;
            }
        }
        let counts: Vec<usize> = seen.iter().map(Vec::len).filter(|n| *n > 0).collect();
        assert_eq!(counts, [3]);
    }
}

#[test]
fn a_connection_id_finds_its_worker() {
    each(|world| {
        // First of all, and behind the routing parts of load balancers.
        let places = [0, 1, 3, 4, 5, 6, 9, 16, 17, 18].map(|worker_at| ("127.0.0.1:0", worker_at));
        for (bound, worker_at) in places.into_iter().chain([("[::1]:0", 0)]) {
            let mut workers = world.open(Role::Server, &[bound], steered(worker_at)).unwrap();
            assert_eq!(workers.len(), WORKERS);
            let address = workers[0].address();
            let mut client = world.client(&[bound]);
            for round in 0..20 {
                for (index, worker) in workers.iter_mut().enumerate() {
                    for datagram in [short(worker_at, index), long(worker_at, index)] {
                        client.send(address, &datagram, datagram.len());
                        assert_eq!(worker.collect(1).len(), 1, "round {round}");
                    }
                }
            }
            // What names no worker still arrives, always at the same one.
            let others = [short(worker_at, 200), long(worker_at, 200), vec![0x41, 1]];
            arrive_at_one(&mut workers, &mut client, &others);
        }
    });
}

#[test]
fn without_a_worker_in_the_connection_id_a_client_finds_one_worker() {
    each(|world| {
        let shape = Shape { steering: Steering::Hash, ..shared(WORKERS) };
        let mut workers = world.open(Role::Server, &["127.0.0.1:0"], shape).unwrap();
        let mut client = world.client(&["127.0.0.1:0"]);
        let datagrams = [short(0, 0), short(0, 1), long(0, 2), long(0, 3)];
        arrive_at_one(&mut workers, &mut client, &datagrams);
    });
}

#[test]
fn a_port_in_use_is_an_error_even_where_it_could_be_shared() {
    for (ours, theirs) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
        let held = Acquired::bind(FIRST, "127.0.0.1:0".parse().unwrap(), ours).unwrap();
        let address = held.local_addr();
        let error = Acquired::bind(ListenerId(1), address, theirs).unwrap_err();
        assert!(matches!(error, BindError::InUse { .. }));
        assert!(error.to_string().contains("address already in use"), "{error}");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}

#[test]
fn impossible_groups_are_refused_by_name() {
    for workers in [0, 257] {
        let error = Acquired::bind(FIRST, "127.0.0.1:0".parse().unwrap(), workers);
        assert!(matches!(error, Err(BindError::Workers { .. })));
    }
    let elsewhere = Acquired::bind(FIRST, "192.0.2.1:0".parse().unwrap(), 1);
    assert!(matches!(elsewhere, Err(BindError::NotHere { .. })));
}

#[test]
fn a_port_is_free_again_after_the_driver_is_gone() {
    each(|world| {
        // No other test binds here, so nobody else can have taken the port.
        let mut address = "127.0.0.77:0".to_owned();
        for _ in 0..20 {
            let node = world.server(&[&address]);
            let port = node.address().port();
            address = format!("127.0.0.77:{port}");
        }
    });
}

/// Each datagram reaches one worker, and any worker can reply, whether the kernel or a card spreads the datagrams.
#[test]
fn workers_share_the_datagrams_of_a_port() {
    let terms = Terms { queues: 2, ..Terms::PLAIN };
    each_on(terms, |world| {
        let mut workers = world.open(Role::Server, &["127.0.0.1:0"], shared(2)).unwrap();
        let address = workers[0].address();
        let mut clients: Vec<_> = (0..40).map(|_| world.client(&["127.0.0.1:0"])).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            // Runts name no worker.
            client.send(address, &numbered(number, 6), 6);
        }
        let mut seen = vec![Vec::new(); workers.len()];
        for _ in 0..500 {
            for (worker, seen) in workers.iter_mut().zip(&mut seen) {
                worker.driver.wait(Some(Duration::from_millis(1))).unwrap();
                worker.receive_once(Budget::UNLIMITED, seen);
            }
            if seen.iter().map(Vec::len).sum::<usize>() >= clients.len() {
                break;
            }
        }
        assert!(seen.iter().all(|seen| !seen.is_empty()));
        let mut numbers = Vec::new();
        let (first, second) = (&seen[0], &seen[1]);
        // Each is answered by the other worker, as a migrated connection would be.
        for (worker, datagrams) in workers.iter_mut().zip([second, first]) {
            for datagram in datagrams {
                numbers.push(number_of(&datagram.bytes));
                worker.send(datagram.meta.peer, &datagram.bytes, 6);
            }
        }
        numbers.sort_unstable();
        assert_eq!(numbers, Vec::from_iter(0..clients.len()));
        for (number, client) in clients.iter_mut().enumerate() {
            let answer = client.collect(1).remove(0);
            assert_eq!(number_of(&answer.bytes), number);
            assert_eq!(answer.meta.peer, address);
        }
    });
}
