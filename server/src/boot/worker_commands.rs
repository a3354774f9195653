//! Commands to all workers, and their replies.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::worker::{Command, WorkerHandle};

/// Time for all workers to reply.
const LIMIT: Duration = Duration::from_secs(5);

/// Sends each worker a command.
pub(super) fn send_all(workers: &[WorkerHandle], command: impl Fn() -> Command) {
    for worker in workers {
        worker.mailbox.send(command());
    }
}

/// Sends each worker that runs a command, and returns their replies in order.
///
/// # Errors
/// One does not reply in time.
pub(super) fn ask<T>(
    workers: &[WorkerHandle],
    command: impl Fn(Sender<T>) -> Command,
) -> io::Result<Vec<T>> {
    ask_each(workers, |worker, reply| worker.mailbox.send(command(reply)))
}

/// Asks each worker, or its front, by `send`, which returns whether it runs; returns the replies in order.
///
/// # Errors
/// One does not reply in time.
pub(super) fn ask_each<T>(
    workers: &[WorkerHandle],
    send: impl Fn(&WorkerHandle, Sender<T>) -> bool,
) -> io::Result<Vec<T>> {
    let replies = workers.iter().filter_map(|worker| {
        let (reply, replied) = channel();
        send(worker, reply).then_some(replied)
    });
    let replies: Vec<_> = replies.collect();
    let replies = replies.into_iter().map(|replied| replied.recv_timeout(LIMIT));
    replies.collect::<Result<_, _>>().map_err(|_| {
        io::Error::new(io::ErrorKind::TimedOut, "a worker does not reply: see the log")
    })
}

/// Has workers read their sockets, or not.
///
/// # Errors
/// One cannot, or does not reply in time.
pub(super) fn set_receiving(workers: &[WorkerHandle], on: bool) -> io::Result<()> {
    let all = ask(workers, |reply| Command::Receive(on, reply))?;
    all.into_iter().try_for_each(|one| one)
}
