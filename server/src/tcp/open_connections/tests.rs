use std::net::IpAddr;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::clients::relief::{Holdings, KEPT};
use sluicegate_base::clock;

use super::*;

/// More than all connections of a test hold, bytes.
const PLENTY: u64 = 1 << 30;

fn client(last: u8) -> ClientPrefix {
    ValidatedAddress::from(IpAddr::from([192, 0, 2, last])).into()
}

fn handle() -> Rc<ConnectionHandle> {
    ConnectionHandle::new(256 << 10, clock::now)
}

/// Adds connections of a client that have had a request just now.
fn add(open: &mut OpenConnections, last: u8, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let handle = handle();
        handle.on_request();
        handle.on_idle(clock::now());
        open.add(client(last), number, handle);
    }
}

fn of(open: &OpenConnections, last: u8, number: u64) -> Rc<ConnectionHandle> {
    Rc::clone(&open.handles[&(client(last), number)])
}

fn make_room(open: &mut OpenConnections, last: u8) -> Option<Room> {
    open.make_room(client(last), clock::now())
}

/// Closes what is to be closed so that so many bytes become free; returns how many connections.
fn relieve(open: &mut OpenConnections, to_free: u64) -> u64 {
    const LIMIT: u64 = 1 << 40;
    let memory = MemoryBudget::new(LIMIT);
    memory.measured(LIMIT);
    memory.on_closed(memory.to_free() - to_free);
    let front = Arc::<Holdings>::default().add_front();
    open.relieve(&front, &memory)
}

#[test]
fn the_client_with_most_loses_its_oldest_idle_connection() {
    let mut open = OpenConnections::default();
    add(&mut open, 1, 0..2);
    add(&mut open, 2, 2..6);
    of(&open, 2, 2).on_request();
    let handle = of(&open, 2, 3);
    assert_eq!(make_room(&mut open, 3), Some(Room::Greediest));
    assert_eq!((open.of(client(1)), open.of(client(2))), (2, 3));
    assert!(!open.handles.contains_key(&(client(2), 3)));
    // Its end counts no second time.
    open.remove(client(2), 3);
    assert_eq!(open.of(client(2)), 3);
    assert!(handle.is_closed());
}

#[test]
fn a_client_makes_no_room_for_itself_nor_for_one_that_would_have_as_many() {
    let mut open = OpenConnections::default();
    add(&mut open, 1, 0..4);
    add(&mut open, 2, 4..7);
    assert_eq!(make_room(&mut open, 1), None);
    assert_eq!(make_room(&mut open, 2), None);
    assert_eq!(make_room(&mut open, 3), Some(Room::Greediest));
}

#[test]
fn what_has_brought_nothing_gives_way_before_anything_else_and_the_oldest_first() {
    let mut open = OpenConnections::default();
    add(&mut open, 1, 0..4);
    for (last, number) in [(2, 4), (3, 5), (4, 6), (5, 7)] {
        open.add(client(last), number, handle());
    }
    // A request without TLS.
    of(&open, 3, 5).on_request();
    let order = [(2, 4), (4, 6), (5, 7)];
    for (last, number) in order {
        let silent = of(&open, last, number);
        assert_eq!(make_room(&mut open, 6), Some(Room::Newcomer));
        assert!(silent.is_closed(), "{number}");
    }
    assert_eq!(make_room(&mut open, 6), Some(Room::Greediest));
    assert_eq!((open.of(client(1)), open.of(client(3))), (3, 1));
    assert!(open.newcomers.is_empty());
}

#[test]
fn handshakes_and_silence_behind_them_give_way_when_their_client_has_had_time_for_a_request() {
    let mut open = OpenConnections::default();
    open.add(client(1), 0, handle());
    let begun = of(&open, 1, 0);
    begun.meter.on_write(&Poll::Ready(Ok(1000)));
    assert_eq!(open.make_room(client(2), begun.begun), None);
    let later = begun.begun + FIRST_REQUEST;
    assert_eq!(open.make_room(client(2), later), Some(Room::Newcomer));
}

#[test]
fn who_has_been_idle_for_longest_gives_way_and_nobody_between_two_requests() {
    let mut open = OpenConnections::default();
    let start = clock::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    for (last, idle_since) in [(1, 2), (2, 1), (3, 3)] {
        open.add(client(last), last.into(), handle());
        of(&open, last, last.into()).on_request();
        of(&open, last, last.into()).on_idle(at(idle_since));
    }
    open.add(client(4), 4, handle());
    of(&open, 4, 4).on_request();
    let mut order = Vec::new();
    while open.make_room(client(9), at(4)) == Some(Room::Idle) {
        let left = |last: &u8| open.of(client(*last)) > 0;
        order.push((1..=4).filter(left).collect::<Vec<_>>());
    }
    assert_eq!(order, [vec![1, 3, 4], vec![3, 4], vec![4]]);
    assert_eq!(open.make_room(client(9), at(100)), None, "it is busy");
    of(&open, 4, 4).on_idle(at(100));
    let early = at(100) + NEXT_REQUEST - Duration::from_millis(1);
    assert_eq!(open.make_room(client(9), early), None);
    // The end of its last response waits for the client.
    let meter = Rc::clone(&of(&open, 4, 4).meter);
    meter.on_write(&Poll::Pending);
    assert_eq!(open.make_room(client(9), at(200)), None);
    meter.on_write(&Poll::Ready(Ok(1)));
    let late = at(100) + NEXT_REQUEST;
    assert_eq!(open.make_room(client(9), late), Some(Room::Idle));
}

#[test]
fn each_idle_connection_is_found_however_many_are_busy() {
    let mut open = OpenConnections::default();
    for last in 0..200 {
        open.add(client(last), last.into(), handle());
        of(&open, last, last.into()).on_request();
    }
    let idle = of(&open, 150, 150);
    idle.on_idle(clock::now());
    let later = clock::now() + NEXT_REQUEST;
    let rooms: Vec<_> = (0..4).map(|_| open.make_room(client(201), later)).collect();
    let found: Vec<_> = rooms.iter().flatten().collect();
    assert_eq!(found, [&Room::Idle]);
    assert!(idle.is_closed());
}

#[test]
fn whoever_holds_most_bytes_loses_first_however_few_connections_hold_them() {
    let mut open = OpenConnections::default();
    add(&mut open, 1, 0..30);
    add(&mut open, 2, 30..34);
    add(&mut open, 3, 34..36);
    let stream = of(&open, 2, 31).send_buffer.stream();
    let held = stream.hold(Bytes::from(vec![0; 200 << 10]));
    of(&open, 2, 32).reserve(0, 8 << 20);
    of(&open, 3, 34).reserve(0, 500 << 10);
    let first = of(&open, 2, 32);
    assert_eq!(relieve(&mut open, PLENTY), 1);
    assert!(first.is_closed());
    assert_eq!(relieve(&mut open, PLENTY), 0, "all others hold less than everybody keeps");
    of(&open, 3, 34).reserve(500 << 10, KEPT);
    assert_eq!(relieve(&mut open, PLENTY), 1);
    drop(held);
    assert_eq!((open.of(client(1)), open.of(client(3))), (30, 1));
}

#[test]
fn relief_takes_from_those_that_have_most_and_leaves_each_some() {
    const SOME: u64 = KEPT / CONNECTION;
    let mut open = OpenConnections::default();
    add(&mut open, 1, 0..SOME + 10);
    add(&mut open, 2, 100..100 + SOME);
    assert_eq!(relieve(&mut open, PLENTY), 10);
    assert_eq!((open.of(client(1)), open.of(client(2))), (SOME, SOME));
    assert_eq!(relieve(&mut open, PLENTY), 0);
}

#[test]
fn relief_ends_when_enough_will_be_free() {
    let mut open = OpenConnections::default();
    add(&mut open, 1, 0..3);
    add(&mut open, 2, 3..6);
    for number in 0..3 {
        of(&open, 1, number).reserve(0, 30 << 20);
        of(&open, 2, number + 3).reserve(0, 20 << 20);
    }
    assert_eq!(relieve(&mut open, 25 << 20), 1);
    assert_eq!((open.of(client(1)), open.of(client(2))), (2, 3));
    // Both hold as much now, and neither falls below the other.
    assert_eq!(relieve(&mut open, 45 << 20), 2);
    assert_eq!((open.of(client(1)), open.of(client(2))), (1, 2));
}
