use super::*;
use crate::exchange::test_front::{self, KEY, open};

fn request() -> Box<Request> {
    Box::new(test_front::request(test_front::head("GET", "/", &[]), None, true))
}

#[test]
fn a_full_ring_refuses_exchanges_and_loses_no_end() {
    let (mut origin_ring, mut worker_ring) = rings(2, Accounts::new(1000, u64::MAX));
    let first = open(&mut origin_ring, request()).unwrap();
    assert!(origin_ring.has_room());
    origin_ring.data(first, Bytes::from_static(b"x"));
    assert!(!origin_ring.has_room());
    assert_eq!(open(&mut origin_ring, request()), None);
    origin_ring.end(first, None);
    origin_ring.cancel(first);
    assert_eq!((origin_ring.counters.refused_queue, origin_ring.counters.waited), (1, 2));
    let full = Depth {
        to_origin: 2,
        overflow: 2,
        from_origin: 0,
        capacity: 2,
        running: 1,
        promised: 2000,
        counters: origin_ring.counters,
    };
    assert_eq!(origin_ring.depth(), full);

    assert!(matches!(worker_ring.take().unwrap().message, ToHandler::Open { credit: 1000, .. }));
    assert!(matches!(worker_ring.take().unwrap().message, ToHandler::Data(_)));
    assert!(worker_ring.take().is_none());
    // What waits comes first, whatever is said later.
    origin_ring.credit(first, 1);
    origin_ring.flush();
    assert!(matches!(worker_ring.take().unwrap().message, ToHandler::End(None)));
    assert!(matches!(worker_ring.take().unwrap().message, ToHandler::Cancel));
    origin_ring.flush();
    assert!(matches!(worker_ring.take().unwrap().message, ToHandler::Credit(1)));
    assert!(origin_ring.has_room());
}

#[test]
fn memory_is_promised_until_an_exchange_is_closed_and_forgotten() {
    let (mut origin_ring, mut worker_ring) = rings(16, Accounts::new(1000, 3999));
    let first = open(&mut origin_ring, request()).unwrap();
    assert_eq!(open(&mut origin_ring, request()), None);
    assert_eq!(origin_ring.depth().counters.refused_memory, 1);
    origin_ring.cancel(first);
    assert_eq!(open(&mut origin_ring, request()), None);
    let closed = Envelope { exchange: first, message: ToFront::Closed };
    worker_ring.give(closed).unwrap();
    assert!(matches!(origin_ring.take(), Some((KEY, ToFront::Closed))));
    assert_eq!(origin_ring.running(), 0);
    // Its messages may stand in the front.
    assert_eq!(origin_ring.depth().promised, 2000);
    assert_eq!(open(&mut origin_ring, request()), None);
    origin_ring.forget(first);
    assert_eq!(origin_ring.depth().promised, 0);
    let second = open(&mut origin_ring, request()).unwrap();
    assert_ne!(first, second);
    // Of an exchange that is closed nothing more is heard.
    let late = Envelope { exchange: first, message: ToFront::End(None) };
    worker_ring.give(late).unwrap();
    assert!(origin_ring.take().is_none());
    // The other way round.
    origin_ring.forget(second);
    assert_eq!(origin_ring.depth().promised, 2000);
    let closed = Envelope { exchange: second, message: ToFront::Closed };
    worker_ring.give(closed).unwrap();
    assert!(matches!(origin_ring.take(), Some((KEY, ToFront::Closed))));
    assert_eq!(origin_ring.depth().promised, 0);
}

fn request_of(client: u8) -> Box<Request> {
    let mut request = request();
    request.peer.address = ([192, 0, 2, client], 1).into();
    request
}

#[test]
fn a_client_alone_may_use_all_memory_and_gives_way_to_others() {
    // Room for 12 exchanges of 2000 bytes.
    let (mut origin_ring, mut worker_ring) = rings(256, Accounts::new(1000, 24_000));
    let first: Vec<u64> = (0..12).map_while(|_| open(&mut origin_ring, request_of(1))).collect();
    assert_eq!(first.len(), 12);
    assert_eq!(open(&mut origin_ring, request_of(1)), None);
    // The oldest exchange of the first client goes for each of the second one, up to one half.
    for _ in 0..6 {
        assert!(open(&mut origin_ring, request_of(2)).is_some());
        assert_eq!(origin_ring.take_revoked(), Some(KEY));
    }
    for client in [1, 2] {
        assert_eq!(open(&mut origin_ring, request_of(client)), None);
    }
    assert!(open(&mut origin_ring, request_of(3)).is_some());
    let Depth { counters, promised, running, .. } = origin_ring.depth();
    assert_eq!((counters.revoked, promised, running), (7, 24_000, 19));
    assert_eq!((counters.refused_memory, counters.refused_client), (1, 2));
    for exchange in first {
        origin_ring.forget(exchange);
        let message = ToFront::Closed;
        worker_ring.give(Envelope { exchange, message }).unwrap();
        assert!(matches!(origin_ring.take(), Some((KEY, ToFront::Closed))));
    }
    assert_eq!(origin_ring.depth().running, 7);
    assert!(open(&mut origin_ring, request_of(1)).is_some());
}

#[test]
fn exchanges_that_never_moved_give_way_before_those_that_did() {
    let share = 128 << 10;
    let (mut origin_ring, mut worker_ring) = rings(256, Accounts::new(share, 8 * share));
    let moving = open(&mut origin_ring, request_of(1)).unwrap();
    origin_ring.credit(moving, 1);
    let more = std::iter::from_fn(|| open(&mut origin_ring, request_of(1)));
    assert_eq!(more.count(), 13);
    assert!(open(&mut origin_ring, request_of(2)).is_some());
    let one: ValidatedAddress = "192.0.2.1".parse().unwrap();
    let order: Vec<(u64, bool)> = { origin_ring.exchanges.entries.iter() }
        .filter(|(_, entry)| entry.permit.holder() != Some(one.into()))
        .map(|(exchange, entry)| (*exchange, entry.permit.has_grown()))
        .collect();
    assert!(order.contains(&(moving + 1, false)) && order.len() == 2);
    drop(worker_ring.take());
}

#[test]
fn a_full_ring_takes_the_few_exchanges_of_a_modest_client() {
    let (mut origin_ring, mut worker_ring) = rings(64, Accounts::new(1000, u64::MAX));
    let greedy = std::iter::from_fn(|| open(&mut origin_ring, request_of(1)));
    assert_eq!(greedy.count(), 64);
    assert!(open(&mut origin_ring, request_of(2)).is_some());
    assert_eq!(open(&mut origin_ring, request_of(2)), None);
    assert_eq!(origin_ring.counters.refused_queue, 2);
    for _ in 0..64 {
        assert!(worker_ring.take().is_some());
    }
    origin_ring.flush();
    assert!(matches!(worker_ring.take().unwrap().message, ToHandler::Open { .. }));
}

#[test]
fn credit_rises_to_the_share_once_a_direction_moves() {
    let share = 128 << 10;
    let (mut origin_ring, mut worker_ring) = rings(16, Accounts::new(share, 1 << 30));
    let exchange = open(&mut origin_ring, request()).unwrap();
    let first = origin_ring.first_credit();
    let mut next = || worker_ring.take().unwrap().message;
    assert!(matches!(next(), ToHandler::Open { credit, .. } if credit == first));
    for more in [share - first, 0] {
        origin_ring.credit(exchange, 100);
        assert!(matches!(next(), ToHandler::Credit(amount) if amount == 100 + more));
    }
    for more in [share - first, 0] {
        let message = ToFront::Credit(7);
        worker_ring.give(Envelope { exchange, message }).unwrap();
        let taken = origin_ring.take();
        assert!(matches!(taken, Some((KEY, ToFront::Credit(amount))) if amount == 7 + more));
    }
    assert_eq!(origin_ring.depth().promised, 2 * share);
}

#[test]
fn a_message_that_does_not_fit_comes_back() {
    let (mut origin_ring, mut worker_ring) = rings(1, Accounts::new(1000, u64::MAX));
    let exchange = open(&mut origin_ring, request()).unwrap();
    let message = |n| Envelope { exchange, message: ToFront::Credit(n) };
    worker_ring.give(message(1)).unwrap();
    let back = worker_ring.give(message(2)).unwrap_err();
    assert!(matches!(origin_ring.take(), Some((KEY, ToFront::Credit(1)))));
    worker_ring.give(back).unwrap();
    assert!(matches!(origin_ring.take(), Some((KEY, ToFront::Credit(2)))));
}
