//! Checks whether the serving threads respond.

use sluicegate_http::origin::{self, OriginCommand};

use crate::worker::{Command, MailboxSender, OutstandingRequest, WorkerHandle};

/// A request to every worker and every origin thread. Nobody waits for the replies; a thread that has ended owes none.
pub(super) struct LivenessCheck {
    targets: Vec<Target>,
}

struct Target {
    name: String,
    thread: Thread,
}

enum Thread {
    Worker(MailboxSender, OutstandingRequest<()>),
    Origin(origin::OriginSender, OutstandingRequest<Box<origin::OriginCounters>>),
}

impl LivenessCheck {
    /// Creates a check of these workers and their origin threads; it has sent nothing yet.
    pub(super) fn of(workers: &[WorkerHandle]) -> LivenessCheck {
        let targets = workers.iter().flat_map(|worker| {
            let name = format!("{}-{}", worker.group, worker.index);
            let origin = format!("{name}-origin");
            [
                (name, Thread::Worker(worker.mailbox.clone(), OutstandingRequest::default())),
                (origin, Thread::Origin(worker.origin.clone(), OutstandingRequest::default())),
            ]
        });
        let targets = targets.map(|(name, thread)| Target { name, thread });
        LivenessCheck { targets: targets.collect() }
    }

    /// Sends a request to every thread that has none outstanding.
    pub(super) fn send(&mut self) {
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

    /// Returns the names of the threads whose reply is outstanding.
    pub(super) fn missing(&mut self) -> Vec<&str> {
        let missing = self.targets.iter_mut().filter_map(|target| {
            let outstanding = match &mut target.thread {
                Thread::Worker(_, question) => is_outstanding(question),
                Thread::Origin(_, question) => is_outstanding(question),
            };
            outstanding.then_some(target.name.as_str())
        });
        missing.collect()
    }
}

/// Takes the reply, if it has come, and returns whether it is still outstanding.
fn is_outstanding<T>(question: &mut OutstandingRequest<T>) -> bool {
    question.try_receive();
    question.is_pending()
}

#[cfg(test)]
pub(super) mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;
    use crate::worker::{Mailbox, mailbox};

    /// Returns a worker's handle, and the mailboxes of the worker and its origin thread.
    pub(in super::super) fn watched(
        index: usize,
    ) -> (WorkerHandle, Mailbox, UnboundedReceiver<OriginCommand>) {
        let (sender, mailbox) = mailbox();
        let (origin, commands) = unbounded_channel();
        let group = "a".to_owned();
        let watched =
            WorkerHandle { group, index, mailbox: sender, origin, front: unbounded_channel().0 };
        (watched, mailbox, commands)
    }

    /// Replies as a worker does.
    pub(in super::super) fn answer(mailbox: &Mailbox) {
        match mailbox.take() {
            Some(Command::Ping(to)) => drop(to.send(())),
            other => panic!("{other:?}"),
        }
    }

    /// Replies as an origin thread does.
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
        call.send();
        assert_eq!(call.missing(), ["a-0", "a-0-origin"]);
        answer(&mailbox);
        assert_eq!(call.missing(), ["a-0-origin"]);
        call.send();
        assert_eq!(call.missing(), ["a-0", "a-0-origin"]);
        report(&mut commands);
        assert!(commands.try_recv().is_err(), "asked once");
        assert_eq!(call.missing(), ["a-0"]);
        call.send();
        drop(commands);
        assert_eq!(call.missing(), ["a-0"]);
        call.send();
        drop(mailbox);
        assert!(call.missing().is_empty());
        call.send();
        assert!(call.missing().is_empty());
    }
}
