//! Who of the threads that serve is there.

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::observe::metrics::Watched;
use crate::origin::{self, Order, proxy};
use crate::worker::{Command, Post, Snapshot};

/// Questions to all workers and origins, for whose answers nobody waits. A thread that has ended owes none.
pub(super) struct RollCall {
    seats: Vec<Seat>,
}

struct Seat {
    name: String,
    thread: Thread,
    pending: Option<Pending>,
}

enum Thread {
    Worker(Post),
    Origin(origin::Post),
}

enum Pending {
    Worker(oneshot::Receiver<Box<Snapshot>>),
    Origin(oneshot::Receiver<Box<proxy::Counters>>),
}

impl RollCall {
    /// Of these workers and the origins beside them.
    pub(super) fn of(workers: &[Watched]) -> RollCall {
        let seats = workers.iter().flat_map(|worker| {
            let name = format!("{}-{}", worker.group, worker.index);
            let origin = format!("{name}-origin");
            [
                Seat::new(name, Thread::Worker(worker.post.clone())),
                Seat::new(origin, Thread::Origin(worker.origin.clone())),
            ]
        });
        RollCall {
            seats: seats.collect(),
        }
    }

    /// Asks everyone. Nobody is asked twice at a time: what they do not read costs no memory.
    pub(super) fn ask(&mut self) {
        for seat in self.seats.iter_mut().filter(|seat| seat.pending.is_none()) {
            seat.pending = seat.thread.ask();
        }
    }

    /// Names of those that were asked and have not answered.
    pub(super) fn missing(&mut self) -> Vec<&str> {
        for seat in &mut self.seats {
            if seat.pending.as_mut().is_some_and(|p| !p.is_open()) {
                seat.pending = None;
            }
        }
        let missing = self.seats.iter().filter(|seat| seat.pending.is_some());
        missing.map(|seat| seat.name.as_str()).collect()
    }
}

impl Seat {
    fn new(name: String, thread: Thread) -> Seat {
        Seat {
            name,
            thread,
            pending: None,
        }
    }
}

impl Thread {
    fn ask(&self) -> Option<Pending> {
        match self {
            Thread::Worker(post) => {
                let (answer, pending) = oneshot::channel();
                let taken = post.send(Command::Snapshot(answer));
                taken.then_some(Pending::Worker(pending))
            }
            Thread::Origin(post) => {
                let (answer, pending) = oneshot::channel();
                let taken = post.send(Order::Report(answer)).is_ok();
                taken.then_some(Pending::Origin(pending))
            }
        }
    }
}

impl Pending {
    /// Whether an answer may still come.
    fn is_open(&mut self) -> bool {
        match self {
            Pending::Worker(pending) => is_open(pending),
            Pending::Origin(pending) => is_open(pending),
        }
    }
}

fn is_open<T>(pending: &mut oneshot::Receiver<T>) -> bool {
    matches!(pending.try_recv(), Err(TryRecvError::Empty))
}

#[cfg(test)]
pub(super) mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;
    use crate::worker::{Mail, post};

    /// A worker and its origin, and what they find in their mailboxes.
    pub(in super::super) fn watched(index: usize) -> (Watched, Mail, UnboundedReceiver<Order>) {
        let (post, mail) = post();
        let (origin, orders) = unbounded_channel();
        let group = "a".to_owned();
        let watched = Watched {
            group,
            index,
            post,
            origin,
        };
        (watched, mail, orders)
    }

    /// As a worker does.
    pub(in super::super) fn answer(mail: &Mail) {
        match mail.take() {
            Some(Command::Snapshot(to)) => drop(to.send(Box::default())),
            other => panic!("{other:?}"),
        }
    }

    /// As an origin does.
    pub(in super::super) fn report(orders: &mut UnboundedReceiver<Order>) {
        match orders.try_recv() {
            Ok(Order::Report(to)) => drop(to.send(Box::default())),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_does_not_answer_is_named_and_who_has_ended_is_not() {
        let (worker, mail, mut orders) = watched(0);
        let mut call = RollCall::of(&[worker]);
        assert!(call.missing().is_empty(), "nobody was asked");
        call.ask();
        assert_eq!(call.missing(), ["a-0", "a-0-origin"]);
        answer(&mail);
        assert_eq!(call.missing(), ["a-0-origin"]);
        call.ask();
        assert_eq!(call.missing(), ["a-0", "a-0-origin"]);
        report(&mut orders);
        assert!(orders.try_recv().is_err(), "asked once");
        assert_eq!(call.missing(), ["a-0"]);
        call.ask();
        drop(orders);
        assert_eq!(call.missing(), ["a-0"]);
        call.ask();
        drop(mail);
        assert!(call.missing().is_empty());
        call.ask();
        assert!(call.missing().is_empty());
    }
}
