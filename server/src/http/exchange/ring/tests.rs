use super::*;
use crate::http::exchange::test_front;

const PLACE: Place = Place {
    slot: 3,
    serial: 7,
    stream: 4,
};

fn request() -> Box<Request> {
    Box::new(test_front::request(
        test_front::head("GET", "/", &[]),
        None,
        true,
    ))
}

#[test]
fn a_full_ring_refuses_exchanges_and_loses_no_end() {
    let (mut link, mut feed) = rings(2, 1000, u64::MAX);
    let first = link.open(PLACE, request()).unwrap();
    assert!(link.has_room());
    link.data(first, Bytes::from_static(b"x"));
    assert!(!link.has_room());
    assert_eq!(link.open(PLACE, request()), None);
    link.end(first, None);
    link.cancel(first);
    assert_eq!((link.counters.refused_queue, link.counters.waited), (1, 2));
    let full = Depth {
        to_origin: 2,
        owed: 2,
        from_origin: 0,
        capacity: 2,
        running: 1,
        promised: 2000,
        counters: link.counters,
    };
    assert_eq!(link.depth(), full);

    assert!(matches!(
        feed.take().unwrap().message,
        ToHandler::Open { credit: 1000, .. }
    ));
    assert!(matches!(feed.take().unwrap().message, ToHandler::Data(_)));
    assert!(feed.take().is_none());
    // What waits comes first, whatever is said later.
    link.credit(first, 1);
    link.flush();
    assert!(matches!(feed.take().unwrap().message, ToHandler::End(None)));
    assert!(matches!(feed.take().unwrap().message, ToHandler::Cancel));
    link.flush();
    assert!(matches!(feed.take().unwrap().message, ToHandler::Credit(1)));
    assert!(link.has_room());
}

#[test]
fn memory_is_promised_until_an_exchange_is_closed() {
    let (mut link, mut feed) = rings(16, 1000, 3999);
    let first = link.open(PLACE, request()).unwrap();
    assert_eq!(link.open(PLACE, request()), None);
    assert_eq!(link.counters.refused_memory, 1);
    link.cancel(first);
    assert_eq!(link.open(PLACE, request()), None);
    let closed = Envelope {
        exchange: first,
        message: ToFront::Closed,
    };
    feed.give(closed).unwrap();
    assert!(matches!(link.take(), Some((PLACE, ToFront::Closed))));
    assert_eq!(link.running(), 0);
    let second = link.open(PLACE, request()).unwrap();
    assert_ne!(first, second);
    // Of an exchange that is closed nothing more is heard.
    let late = Envelope {
        exchange: first,
        message: ToFront::End(None),
    };
    feed.give(late).unwrap();
    assert!(link.take().is_none());
}

#[test]
fn one_client_leaves_room_for_the_others() {
    let (mut link, mut feed) = rings(16, 1000, 48_000);
    let other = || {
        let mut request = request();
        request.peer.address = ([192, 0, 2, 2], 1).into();
        request
    };
    let first = link.open(PLACE, request()).unwrap();
    assert!((0..2).all(|_| link.open(PLACE, request()).is_some()));
    assert_eq!(link.open(PLACE, request()), None);
    assert_eq!(link.counters.refused_client, 1);
    assert!(link.open(PLACE, other()).is_some());
    let closed = Envelope {
        exchange: first,
        message: ToFront::Closed,
    };
    feed.give(closed).unwrap();
    assert!(matches!(link.take(), Some((PLACE, ToFront::Closed))));
    assert!(link.open(PLACE, request()).is_some());
}

#[test]
fn a_message_that_does_not_fit_comes_back() {
    let (mut link, mut feed) = rings(1, 1000, u64::MAX);
    let exchange = link.open(PLACE, request()).unwrap();
    let message = |n| Envelope {
        exchange,
        message: ToFront::Credit(n),
    };
    feed.give(message(1)).unwrap();
    let back = feed.give(message(2)).unwrap_err();
    assert!(matches!(link.take(), Some((PLACE, ToFront::Credit(1)))));
    feed.give(back).unwrap();
    assert!(matches!(link.take(), Some((PLACE, ToFront::Credit(2)))));
}
