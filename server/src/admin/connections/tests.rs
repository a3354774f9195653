use std::time::Duration;

use sluicegate_base::observe::account::Wait;

use super::*;
use crate::admin::scrape::tests::worker;
use crate::worker::Mailbox;

fn questions(mailbox: &Mailbox) -> Vec<Inspection> {
    let taken = std::iter::from_fn(|| mailbox.take());
    taken
        .filter_map(|command| match command {
            Command::Inspect(inspection) => Some(*inspection),
            _ => None,
        })
        .collect()
}

/// Returns the numbers of so many connections.
fn inspected(count: usize) -> Inspected {
    let mut found = Inspected::default();
    for _ in 0..count {
        found.census.note(ConnectionProtocol::Http3, "cubic".into(), Wait::Client);
    }
    found
}

#[test]
fn worker_that_hangs_is_asked_once() {
    let workers = WorkerQueries::default();
    let ((one, hangs), (other, replies)) = (worker("a", 0), worker("a", 1));
    workers.watch(vec![one, other]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        tokio::time::pause();
        for _ in 0..3 {
            let selection = ConnectionFilter::default();
            let found = find(&workers, &selection, Order::Age, 5);
            let work = async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                for question in questions(&replies) {
                    question.reply.send(inspected(7)).unwrap();
                }
            };
            let (found, ()) = tokio::join!(found, work);
            assert_eq!((found.census.count(), &found.silent[..]), (7, &["a/0".to_owned()][..]));
        }
        let waiting = questions(&hangs);
        assert_eq!(waiting.len(), 1);
        // Its late reply is to a question that nobody asks any more.
        for question in waiting {
            question.reply.send(inspected(100)).unwrap();
        }
        let work = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            for question in questions(&replies).into_iter().chain(questions(&hangs)) {
                question.reply.send(inspected(7)).unwrap();
            }
        };
        let selection = ConnectionFilter::default();
        let (found, ()) = tokio::join!(find(&workers, &selection, Order::Age, 5), work);
        assert_eq!((found.census.count(), found.silent.len()), (14, 0));
    });
    // A worker that has ended has no workers.
    drop((hangs, replies));
    let found = runtime.block_on(find(&workers, &ConnectionFilter::default(), Order::Age, 5));
    assert_eq!((found.census.count(), found.silent.len()), (0, 0));
}

#[test]
fn digits_that_several_ids_begin_with_are_too_few() {
    let workers = WorkerQueries::default();
    let (one, asked) = worker("a", 0);
    workers.watch(vec![one]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        for (count, status) in [(0, StatusCode::NOT_FOUND), (2, StatusCode::CONFLICT)] {
            let id = IdPrefix::parse("8a0ff").unwrap();
            let work = async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                for question in questions(&asked) {
                    question.reply.send(inspected(count)).unwrap();
                }
            };
            let (found, ()) = tokio::join!(find_one(&workers, &id, Purpose::Look), work);
            assert_eq!(found.unwrap_err().status(), status);
        }
    });
}

fn snapshot(id: &[u8]) -> ConnectionSnapshot {
    ConnectionSnapshot {
        id: id.to_vec(),
        protocol: ConnectionProtocol::Http3,
        listener: "main".into(),
        client: ([192, 0, 2, 1], 5000).into(),
        is_client_validated: true,
        algorithm: "cubic".into(),
        state: "slow_start",
        age: Duration::ZERO,
        wait: Wait::Client,
        waiting: Duration::ZERO,
        busy: Duration::ZERO,
        troubles: Vec::new(),
        spent: Vec::new(),
        has_tunnel: false,
        silence: Duration::ZERO,
        open_requests: Vec::new(),
        requests: 0,
        rtt: None,
        window: 0,
        is_window_at_floor: false,
        mtu: 0,
        delivery_rate: None,
        sent: 0,
        received: 0,
        lost: None,
        retransmitted: 0,
        timeouts: None,
    }
}

/// Worker 0 does not reply; worker 1 has connections of these ranks, which it lists in their order.
fn find_beside_silence(ranks: &[u64], purpose: Purpose) -> Result<Vec<u8>, StatusCode> {
    let workers = WorkerQueries::default();
    let ((one, _hangs), (other, replies)) = (worker("a", 0), worker("a", 1));
    workers.watch(vec![one, other]);
    let mut found = inspected(ranks.len());
    let ids = (0..).map(|number| [0x8a, 0x0f, number]);
    found.shown = ranks.iter().copied().zip(ids.map(|id| snapshot(&id))).collect();
    let work = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        for question in questions(&replies) {
            question.reply.send(std::mem::take(&mut found)).unwrap();
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let found = runtime.block_on(async {
        tokio::time::pause();
        let id = IdPrefix::parse("8a0f").unwrap();
        tokio::join!(find_one(&workers, &id, purpose), work).0
    });
    found.map(|(_, one)| one.id).map_err(|page| page.status())
}

#[test]
fn an_order_by_some_digits_needs_the_replies_of_all_workers() {
    for (ranks, look, order) in [
        (&[7][..], Ok(0), Err(StatusCode::SERVICE_UNAVAILABLE)),
        (&[RANK_OF_NAMED], Ok(0), Ok(0)),
        (&[9, 7], Err(StatusCode::CONFLICT), Err(StatusCode::CONFLICT)),
        // The whole ID, and older ones that begin with it.
        (&[9, 7, RANK_OF_NAMED], Ok(2), Ok(2)),
        (&[], Err(StatusCode::SERVICE_UNAVAILABLE), Err(StatusCode::SERVICE_UNAVAILABLE)),
    ] {
        for (purpose, expected) in [(Purpose::Look, look), (Purpose::Order, order)] {
            let expected = expected.map(|number| vec![0x8a, 0x0f, number]);
            assert_eq!(find_beside_silence(ranks, purpose), expected, "{ranks:?} {purpose:?}");
        }
    }
}
