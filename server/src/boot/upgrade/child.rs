//! The process that an upgrade starts, as its parent sees it.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::io::Errno;
use sluicegate_base::affinity;

use super::super::events::{Event, OtherNews};
use crate::handover::message::Hello;
use crate::handover::{Channel, Message, News, SocketKind};

/// Time in which a process that has closed its end is reaped.
const REAP: Duration = Duration::from_secs(2);
/// Time between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Starts a process that may use all cores of this one: the main thread may have left some to workers.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    std::thread::scope(|scope| {
        let spawned = scope.spawn(|| {
            // Where the system refuses, the child says which core it lacks.
            let _ = affinity::confine(affinity::process_cores());
            command.spawn()
        });
        spawned.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })
}

/// Messages and descriptors for the newer process.
pub(super) struct Offer {
    pub(super) hello: Hello,
    /// Stream of datagrams, and the file of what the processes leave each other.
    pub(super) beside: Vec<OwnedFd>,
    pub(super) sockets: Vec<(Message, OwnedFd)>,
}

/// Hands over, and reports what the newer process says until it ends, or `report` returns false.
pub(super) fn follow(
    mut child: Child,
    channel: &Channel,
    offer: Offer,
    report: impl Fn(Event) -> bool,
    number: u64,
) {
    let Offer { hello, beside, sockets } = offer;
    let mut offered = channel.offer(&Message::Hello(hello), &beside);
    drop(beside);
    for (message, socket) in sockets {
        offered = offered.and_then(|()| channel.offer(&message, &[socket]));
    }
    let broken = loop {
        let received = offered.and_then(|()| channel.receive());
        let (message, mut beside) = match received {
            Ok(Some(received)) => received,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        offered = Ok(());
        let other = |news| Event::Other(number, OtherNews::News(news));
        let event = match (message, beside.pop()) {
            (Message::Socket { kind: SocketKind::Udp, label, .. }, Some(socket)) => {
                Event::Added(number, label, socket)
            }
            (Message::Drains(process), _) => Event::Drains(number, process),
            (Message::Reopen, _) => Event::Reopen(number),
            (Message::Back, _) => other(News::Back),
            (Message::Stay, _) => other(News::Stay),
            (Message::Read, _) => other(News::Read),
            (message, _) => match message.news() {
                Some(news) => other(news),
                None => continue,
            },
        };
        if !report(event) {
            return;
        }
    };
    let reason = match reap(&mut child) {
        Some(status) => format!("the new process has ended ({status}); the log says why"),
        None => {
            // It does not know what it does.
            let _ = child.kill();
            let _ = child.wait();
            why_ended(broken.as_ref())
        }
    };
    report(Event::Other(number, OtherNews::Ended(reason)));
}

/// Says why a process was ended that has not ended by itself: the way to it is closed, or broken by an error.
fn why_ended(broken: Option<&io::Error>) -> String {
    match broken {
        Some(error) if matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE)) => {
            "this process can open no more files, so it takes no sockets of the new one, which was ended: raise the limit (ulimit -n, \
             LimitNOFILE), or wait until connections have ended"
                .to_owned()
        }
        Some(error) => format!("what the new process says cannot be read ({error}), so it was ended"),
        None => "the new process has closed the way to this one, and was ended".to_owned(),
    }
}

/// Waits for the end of a process. Returns its status; `None` if it goes on.
#[expect(clippy::disallowed_methods, reason = "this thread has nothing else to do")]
fn reap(child: &mut Child) -> Option<ExitStatus> {
    for _ in 0..REAP.as_millis() / LOOK.as_millis() {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(LOOK);
    }
    None
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::sync::mpsc;

    use super::*;
    use crate::handover::message::PROTOCOL;

    fn offer() -> Offer {
        let hello = Hello {
            protocol: PROTOCOL,
            process: 1,
            generation: 0,
            oldest: 0,
            newest: 0,
            layout: String::new(),
            kinds: Vec::new(),
            secrets: String::new(),
            sockets: 0,
        };
        Offer { hello, beside: Vec::new(), sockets: Vec::new() }
    }

    /// Returns why a process was ended that goes on after it has sent `bytes` and closed its end.
    fn reason_after(bytes: &[u8]) -> String {
        let (channel, end) = Channel::pair().unwrap();
        let child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        if !bytes.is_empty() {
            rustix::io::write(&end, bytes).unwrap();
        }
        let (events, inbox) = mpsc::channel();
        let closed = std::thread::spawn(move || {
            let mut first = [0; 4096];
            rustix::io::read(&end, &mut first).unwrap();
        });
        follow(child, &channel, offer(), |event| events.send(event).is_ok(), 1);
        closed.join().unwrap();
        match inbox.recv().unwrap() {
            Event::Other(1, OtherNews::Ended(reason)) => reason,
            _ => panic!("another event"),
        }
    }

    #[test]
    fn a_process_that_is_ended_is_said_why() {
        assert!(reason_after(b"").contains("has closed the way"));
        assert!(reason_after(b"sing").contains("cannot be read"));
        let full = io::Error::from(Errno::MFILE);
        assert!(why_ended(Some(&full)).contains("raise the limit (ulimit -n, LimitNOFILE)"));
    }
}
