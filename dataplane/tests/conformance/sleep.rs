//! A sleeping worker is woken, and not before its deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_dataplane::{Budget, Dataplane};

use crate::node::Node;
use crate::rig::{Role, Shape, World, each, each_on};
use crate::veth::Terms;

/// Far beyond what any sleep here should take: passed only where a wake-up was lost.
const LOST: Duration = Duration::from_secs(30);

/// A link without frames of the kernel's own, any of which would end a sleep.
const QUIET: Terms = Terms { v6: false, ..Terms::PLAIN };

/// The worker's work is done.
const STOP: u64 = u64::MAX;

/// Fails instead of hanging where nothing ends the sleep.
fn sleep_until_woken(node: &mut Node) {
    let start = Instant::now();
    node.driver.wait(Some(LOST)).unwrap();
    assert!(start.elapsed() < LOST, "nothing ended the sleep");
}

fn opened(world: &World) -> Node {
    world.server(&["127.0.0.1:0"])
}

#[test]
fn a_wake_before_the_wait_ends_it() {
    each(|world| {
        let mut node = opened(world);
        let waker = node.driver.waker();
        for _ in 0..100 {
            waker.wake();
            waker.clone().wake();
            sleep_until_woken(&mut node);
        }
    });
}

#[test]
fn no_wake_up_is_lost_between_threads() {
    each(|world| {
        let work = Arc::new(AtomicU64::new(0));
        let (send_waker, receive_waker) = mpsc::channel();
        let (done, acks) = mpsc::channel();
        let seen = Arc::clone(&work);
        let kind = world.kind_of(Role::Server);
        let (mut seeds, _, held) = world.seeds(Role::Server, &[], &Shape::default()).unwrap();
        let worker = thread::spawn(move || {
            // A ring belongs to the thread that opens it.
            let driver = seeds.remove(0).open().unwrap().driver;
            let mut node = Node::new(kind, driver, Vec::new(), None);
            send_waker.send(node.driver.waker()).unwrap();
            let mut last = 0;
            loop {
                node.driver.wait(None).unwrap();
                let now = seen.load(Ordering::Relaxed);
                if now == STOP {
                    return;
                }
                if now > last {
                    last = now;
                    done.send(now).unwrap();
                }
            }
        });
        let waker = receive_waker.recv_timeout(LOST).unwrap();
        let mut step = 0;
        while step < 20_000 {
            // Bursts of one to three, so that wake-ups fall before, into and after the sleep.
            for _ in 0..=step % 3 {
                step += 1;
                work.store(step, Ordering::Relaxed);
                waker.wake();
            }
            while acks.recv_timeout(LOST).expect("a wake-up was lost") < step {}
        }
        work.store(STOP, Ordering::Relaxed);
        waker.wake();
        worker.join().unwrap();
        drop(held);
    });
}

#[test]
fn a_datagram_ends_the_sleep() {
    each(|world| {
        let mut node = opened(world);
        let target = node.address();
        let (source, shape) = (["127.0.0.1:0"], Shape::default());
        let kind = world.kind_of(Role::Client);
        let (mut seeds, addresses, held) = world.seeds(Role::Client, &source, &shape).unwrap();
        let sender = thread::spawn(move || {
            let driver = seeds.remove(0).open().unwrap().driver;
            let mut client = Node::new(kind, driver, addresses, None);
            for _ in 0..200 {
                client.send(target, b"x", 1);
                thread::yield_now();
            }
        });
        let mut seen = Vec::new();
        while seen.len() < 200 {
            sleep_until_woken(&mut node);
            node.receive_once(Budget::of_datagrams(7), &mut seen);
        }
        sender.join().unwrap();
        drop(held);
    });
}

#[test]
fn a_deadline_is_never_early() {
    each_on(QUIET, |world| {
        let mut node = opened(world);
        for micros in [0, 1, 50, 300, 999, 1000, 1500, 2001, 10_300] {
            let timeout = Duration::from_micros(micros);
            for _ in 0..5 {
                let start = Instant::now();
                node.driver.wait(Some(timeout)).unwrap();
                assert!(start.elapsed() >= timeout, "{:?} of {timeout:?}", start.elapsed());
            }
        }
    });
}

#[test]
fn an_old_deadline_does_not_shorten_a_later_sleep() {
    each_on(QUIET, |world| {
        let mut node = opened(world);
        let waker = node.driver.waker();
        for _ in 0..20 {
            waker.wake();
            node.driver.wait(Some(Duration::from_millis(2))).unwrap();
            let timeout = Duration::from_millis(7);
            let start = Instant::now();
            node.driver.wait(Some(timeout)).unwrap();
            assert!(start.elapsed() >= timeout);
        }
    });
}

#[test]
fn a_driver_without_listeners_sleeps_and_wakes() {
    each(|world| {
        let mut node = world.server(&[]);
        node.driver.wait(Some(Duration::from_micros(100))).unwrap();
        node.driver.waker().wake();
        sleep_until_woken(&mut node);
        assert_eq!(node.receive_once(Budget::of_datagrams(10), &mut Vec::new()), 0);
    });
}
