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
