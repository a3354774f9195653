//! Who of the threads that serve is there.

use crate::http::origin::{self, OriginCommand};
use crate::http::proxy;
use crate::worker::{Command, MailboxSender, OutstandingRequest, WorkerHandle};

/// Questions to all workers and origins, for whose answers nobody waits. A thread that has ended owes none.
pub(super) struct LivenessCheck {
    targets: Vec<Target>,
}

struct Target {
    name: String,
    thread: Thread,
}

enum Thread {
    Worker(MailboxSender, OutstandingRequest<()>),
    Origin(
        origin::OriginSender,
        OutstandingRequest<Box<proxy::Counters>>,
    ),
}

impl LivenessCheck {
    /// Of these workers and the origins beside them.
    pub(super) fn of(workers: &[WorkerHandle]) -> LivenessCheck {
        let targets = workers.iter().flat_map(|worker| {
            let name = format!("{}-{}", worker.group, worker.index);
            let origin = format!("{name}-origin");
            [
                (
                    name,
                    Thread::Worker(worker.mailbox.clone(), OutstandingRequest::default()),
                ),
                (
                    origin,
                    Thread::Origin(worker.origin.clone(), OutstandingRequest::default()),
                ),
            ]
        });
        let targets = targets.map(|(name, thread)| Target { name, thread });
        LivenessCheck {
            targets: targets.collect(),
        }
    }

    /// Asks everyone who was not asked already.
    pub(super) fn ask(&mut self) {
        for target in &mut self.targets {
            match &mut target.thread {
                Thread::Worker(mailbox, question) => {
                    question.send(|reply| mailbox.send(Command::Ping(reply)));
                }
                Thread::Origin(mailbox, question) => {
                    question.send(|reply| mailbox.send(OriginCommand::Report(reply)).is_ok());
                }
            }
        }
    }

    /// Names of those that were asked and have not answered.
    pub(super) fn missing(&mut self) -> Vec<&str> {
        let missing = { self.targets.iter_mut() }.filter_map(|target| {
            let open = match &mut target.thread {
                Thread::Worker(_, question) => is_open(question),
                Thread::Origin(_, question) => is_open(question),
            };
            open.then_some(target.name.as_str())
        });
        missing.collect()
    }
}

/// That there is an answer is all that it tells.
fn is_open<T>(question: &mut OutstandingRequest<T>) -> bool {
    question.try_receive();
    question.is_pending()
}

#[cfg(test)]
pub(super) mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;
    use crate::worker::{Mailbox, mailbox};

    /// A worker and its origin, and what they find in their mailboxes.
    pub(in super::super) fn watched(
        index: usize,
    ) -> (WorkerHandle, Mailbox, UnboundedReceiver<OriginCommand>) {
        let (sender, mailbox) = mailbox();
        let (origin, commands) = unbounded_channel();
        let group = "a".to_owned();
        let watched = WorkerHandle {
            group,
            index,
            mailbox: sender,
            origin,
        };
        (watched, mailbox, commands)
    }

    /// As a worker does.
    pub(in super::super) fn answer(mailbox: &Mailbox) {
        match mailbox.take() {
            Some(Command::Ping(to)) => drop(to.send(())),
            other => panic!("{other:?}"),
        }
    }

    /// As an origin does.
    pub(in super::super) fn report(commands: &mut UnboundedReceiver<OriginCommand>) {
        match commands.try_recv() {
            Ok(OriginCommand::Report(to)) => drop(to.send(Box::default())),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_does_not_answer_is_named_and_who_has_ended_is_not() {
        let (worker, mailbox, mut commands) = watched(0);
        let mut call = LivenessCheck::of(&[worker]);
        assert!(call.missing().is_empty(), "nobody was asked");
        call.ask();
        assert_eq!(call.missing(), ["a-0", "a-0-origin"]);
        answer(&mailbox);
        assert_eq!(call.missing(), ["a-0-origin"]);
        call.ask();
        assert_eq!(call.missing(), ["a-0", "a-0-origin"]);
        report(&mut commands);
        assert!(commands.try_recv().is_err(), "asked once");
        assert_eq!(call.missing(), ["a-0"]);
        call.ask();
        drop(commands);
        assert_eq!(call.missing(), ["a-0"]);
        call.ask();
        drop(mailbox);
        assert!(call.missing().is_empty());
        call.ask();
        assert!(call.missing().is_empty());
    }
}
