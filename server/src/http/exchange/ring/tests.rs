use super::*;
use crate::http::exchange::test_front::{self, KEY, open};

fn request() -> Box<Request> {
    Box::new(test_front::request(
        test_front::head("GET", "/", &[]),
        None,
        true,
    ))
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
    assert_eq!(
        (
            origin_ring.counters.refused_queue,
            origin_ring.counters.waited
        ),
        (1, 2)
    );
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

    assert!(matches!(
        worker_ring.take().unwrap().message,
        ToHandler::Open { credit: 1000, .. }
    ));
    assert!(matches!(
        worker_ring.take().unwrap().message,
        ToHandler::Data(_)
    ));
    assert!(worker_ring.take().is_none());
    // What waits comes first, whatever is said later.
    origin_ring.credit(first, 1);
    origin_ring.flush();
    assert!(matches!(
        worker_ring.take().unwrap().message,
        ToHandler::End(None)
    ));
    assert!(matches!(
        worker_ring.take().unwrap().message,
        ToHandler::Cancel
    ));
    origin_ring.flush();
    assert!(matches!(
        worker_ring.take().unwrap().message,
        ToHandler::Credit(1)
    ));
    assert!(origin_ring.has_room());
}

#[test]
fn memory_is_promised_until_an_exchange_is_closed() {
    let (mut origin_ring, mut worker_ring) = rings(16, Accounts::new(1000, 3999));
    let first = open(&mut origin_ring, request()).unwrap();
    assert_eq!(open(&mut origin_ring, request()), None);
    assert_eq!(origin_ring.depth().counters.refused_memory, 1);
    origin_ring.cancel(first);
    assert_eq!(open(&mut origin_ring, request()), None);
    let closed = Envelope {
        exchange: first,
        message: ToFront::Closed,
    };
    worker_ring.give(closed).unwrap();
    assert!(matches!(origin_ring.take(), Some((KEY, ToFront::Closed))));
    assert_eq!(origin_ring.running(), 0);
    let second = open(&mut origin_ring, request()).unwrap();
    assert_ne!(first, second);
    // Of an exchange that is closed nothing more is heard.
    let late = Envelope {
        exchange: first,
        message: ToFront::End(None),
    };
    worker_ring.give(late).unwrap();
    assert!(origin_ring.take().is_none());
}

#[test]
fn one_client_leaves_room_for_the_others() {
    let (mut origin_ring, mut worker_ring) = rings(16, Accounts::new(1000, 48_000));
    let other = || {
        let mut request = request();
        request.peer.address = ([192, 0, 2, 2], 1).into();
        request
    };
    let first = open(&mut origin_ring, request()).unwrap();
    assert!((0..2).all(|_| open(&mut origin_ring, request()).is_some()));
    assert_eq!(open(&mut origin_ring, request()), None);
    assert_eq!(origin_ring.depth().counters.refused_client, 1);
    assert!(open(&mut origin_ring, other()).is_some());
    let closed = Envelope {
        exchange: first,
        message: ToFront::Closed,
    };
    worker_ring.give(closed).unwrap();
    assert!(matches!(origin_ring.take(), Some((KEY, ToFront::Closed))));
    assert!(open(&mut origin_ring, request()).is_some());
}

#[test]
fn a_message_that_does_not_fit_comes_back() {
    let (mut origin_ring, mut worker_ring) = rings(1, Accounts::new(1000, u64::MAX));
    let exchange = open(&mut origin_ring, request()).unwrap();
    let message = |n| Envelope {
        exchange,
        message: ToFront::Credit(n),
    };
    worker_ring.give(message(1)).unwrap();
    let back = worker_ring.give(message(2)).unwrap_err();
    assert!(matches!(
        origin_ring.take(),
        Some((KEY, ToFront::Credit(1)))
    ));
    worker_ring.give(back).unwrap();
    assert!(matches!(
        origin_ring.take(),
        Some((KEY, ToFront::Credit(2)))
    ));
}
