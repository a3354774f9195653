//! The way for messages between the two processes: whole messages, each with descriptors beside it.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
    recvmsg, sendmsg, shutdown, socketpair,
};

use super::message::{DrainingProcess, Message};
use super::transient::{PAUSE, is_transient};

/// Largest message, bytes.
const LARGEST: usize = 16 * 1024;
/// Descriptors beside a message at most.
const MOST_DESCRIPTORS: usize = 2;
/// Most messages that wait for room.
const MOST_WAITING: usize = 256;
/// Most processes whose state waits for room; there are fewer.
const MOST_PROCESSES: usize = 64;
/// An end of the way for messages.
#[derive(Debug)]
pub(crate) struct Channel {
    end: OwnedFd,
    waiting: Mutex<Waiting>,
}

/// What there is no room for: the other process reads nothing, as it is stopped or hangs.
#[derive(Debug, Default)]
struct Waiting {
    /// Those that must not be lost, in their order, some with a descriptor beside them.
    messages: VecDeque<(Message, Option<Arc<OwnedFd>>)>,
    /// The latest state of each process that drains, by its number.
    draining: BTreeMap<u32, DrainingProcess>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.draining.is_empty()
    }

    /// Takes a message. Returns false where there are too many.
    fn add(&mut self, message: &Message, descriptor: Option<OwnedFd>) -> bool {
        if let Message::Drains(process) = message {
            let is_known = self.draining.contains_key(&process.process);
            let has_room = is_known || self.draining.len() < MOST_PROCESSES;
            if has_room {
                self.draining.insert(process.process, *process);
            }
            return has_room;
        }
        let is_waiting = |(other, _): &(Message, _)| *other == Message::Reopen;
        if *message == Message::Reopen && self.messages.iter().any(is_waiting) {
            return true;
        }
        let has_room = self.messages.len() < MOST_WAITING;
        if has_room {
            self.messages.push_back((message.clone(), descriptor.map(Arc::new)));
        }
        has_room
    }

    /// Returns what is to be sent next.
    fn next(&self) -> Option<(Message, Option<Arc<OwnedFd>>)> {
        let state = || self.draining.values().next().map(|one| (Message::Drains(*one), None));
        self.messages.front().cloned().or_else(state)
    }

    /// Drops what [`Waiting::next`] returns.
    fn pop(&mut self) {
        if self.messages.pop_front().is_none() {
            self.draining.pop_first();
        }
    }
}

impl Channel {
    /// Makes both ends.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub(crate) fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel::of(one), other))
    }

    /// Takes an end that another process has passed.
    pub(crate) fn of(end: OwnedFd) -> Channel {
        Channel { end, waiting: Mutex::default() }
    }

    /// Closes it, for the other process too.
    pub(crate) fn close(&self) {
        // It may be closed already.
        let _ = shutdown(&self.end, Shutdown::Both);
    }

    /// Bounds the time for which [`Channel::receive`] waits; `None` for no bound.
    ///
    /// # Errors
    /// It is no socket.
    pub(crate) fn set_limit(&self, limit: Option<Duration>) -> io::Result<()> {
        Ok(set_socket_timeout(&self.end, Timeout::Recv, limit)?)
    }

    /// Sends a message with descriptors beside it, and waits for room.
    ///
    /// # Errors
    /// The other process has ended.
    pub(crate) fn offer(&self, message: &Message, descriptors: &[OwnedFd]) -> io::Result<()> {
        let beside: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        loop {
            match self.send_with(message, &beside, SendFlags::empty()) {
                Err(error) if is_transient(error) || error == Errno::TOOMANYREFS => pause(),
                sent => return Ok(sent?),
            }
        }
    }

    /// Sends a message behind those that wait, and waits for nothing: the other process may be stopped, or hang. Where there is no room,
    /// the message waits for [`Channel::flush`]; of what a process says of its drain, the latest alone.
    ///
    /// # Errors
    /// Too many wait, or the other process has ended.
    pub(crate) fn send(&self, message: &Message) -> io::Result<()> {
        self.send_in_turn(message, None)
    }

    /// Sends a message likewise, with a descriptor beside it.
    ///
    /// # Errors
    /// As with [`Channel::send`].
    pub(crate) fn send_beside(&self, message: &Message, descriptor: OwnedFd) -> io::Result<()> {
        self.send_in_turn(message, Some(descriptor))
    }

    fn send_in_turn(&self, message: &Message, descriptor: Option<OwnedFd>) -> io::Result<()> {
        let mut waiting = self.waiting();
        if !waiting.add(message, descriptor) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.send_waiting(&mut waiting)
    }

    /// Sends what waits, as far as there is room.
    ///
    /// # Errors
    /// The other process has ended.
    pub(crate) fn flush(&self) -> io::Result<()> {
        self.send_waiting(&mut self.waiting())
    }

    /// Returns whether messages wait for room.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting().is_empty()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_waiting(&self, waiting: &mut Waiting) -> io::Result<()> {
        while let Some((message, descriptor)) = waiting.next() {
            let beside: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
            match self.send_with(&message, &beside, SendFlags::DONTWAIT) {
                Ok(()) => waiting.pop(),
                Err(Errno::AGAIN | Errno::TOOMANYREFS) => break,
                Err(error) if is_transient(error) => break,
                Err(error) => {
                    *waiting = Waiting::default();
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    fn send_with(
        &self,
        message: &Message,
        descriptors: &[BorrowedFd<'_>],
        flags: SendFlags,
    ) -> Result<(), Errno> {
        let text = message.to_text();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let text = [IoSlice::new(text.as_bytes())];
        sendmsg(&self.end, &text, &mut ancillary, SendFlags::NOSIGNAL | flags)?;
        Ok(())
    }

    /// Waits for the next message. Returns `None` once the other process has ended.
    ///
    /// # Errors
    /// None came in time, it is none of this protocol, or this process may open no descriptor beside it.
    pub(crate) fn receive(&self) -> io::Result<Option<(Message, Vec<OwnedFd>)>> {
        let mut text = vec![0; LARGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut text)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            match recvmsg(&self.end, &mut parts, &mut ancillary, flags) {
                Err(error) if is_transient(error) => pause(),
                received => break received?,
            }
        };
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                descriptors.extend(fds);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Errno::MFILE.into());
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        let message = Message::parse(text.get(..received.bytes).unwrap_or_default());
        let message = message.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Some((message, descriptors)))
    }
}

#[expect(clippy::disallowed_methods, reason = "the thread has nothing else to do")]
fn pause() {
    std::thread::sleep(PAUSE);
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::handover::SocketKind;

    fn drains(process: u32, connections: u64) -> Message {
        let (generation, seconds_left) = (1, 0);
        Message::Drains(DrainingProcess { process, generation, connections, seconds_left })
    }

    #[test]
    fn messages_arrive_whole_with_their_sockets_and_then_comes_the_end() {
        let (sender, end) = Channel::pair().unwrap();
        let receiver = Channel::of(end);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let message = Message::Socket {
            kind: SocketKind::Udp,
            listener: "edge".to_owned(),
            configured: "127.0.0.1:0".parse().unwrap(),
            label: 3,
        };
        sender.offer(&message, &[socket.into()]).unwrap();
        sender.send(&Message::Read).unwrap();
        drop(sender);
        let (received, mut beside) = receiver.receive().unwrap().unwrap();
        assert_eq!(received, message);
        let socket = UdpSocket::from(beside.pop().unwrap());
        assert_eq!(socket.local_addr().unwrap(), address);
        let (received, beside) = receiver.receive().unwrap().unwrap();
        assert!(received == Message::Read && beside.is_empty());
        assert!(receiver.receive().unwrap().is_none());
    }

    #[test]
    fn silence_and_strange_bytes_are_errors() {
        let (one, end) = Channel::pair().unwrap();
        one.set_limit(Some(Duration::from_millis(10))).unwrap();
        assert_eq!(one.receive().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        rustix::io::write(&end, b"sing").unwrap();
        assert_eq!(one.receive().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    /// As where the process may open no more, or another one sends more than are taken.
    #[test]
    fn a_descriptor_that_gets_lost_is_an_error() {
        // More than there may be room for, as the buffer is aligned.
        const BESIDE: usize = 4 * MOST_DESCRIPTORS;
        let (receiver, end) = Channel::pair().unwrap();
        let descriptors = [end.as_fd(); BESIDE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BESIDE))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let text = Message::Read.to_text();
        sendmsg(&end, &[IoSlice::new(text.as_bytes())], &mut ancillary, SendFlags::empty())
            .unwrap();
        let error = receiver.receive().unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::MFILE));
    }

    /// The other process was stopped for a while, as by SIGSTOP.
    #[test]
    fn who_reads_late_gets_each_message_and_the_latest_state() {
        let (sender, end) = Channel::pair().unwrap();
        let receiver = Channel::of(end);
        let orders = [Message::Replaced, Message::Back, Message::Stay, Message::Reading];
        let last = 999;
        for order in &orders {
            for connections in 0..=last {
                sender.send(&drains(7, connections)).unwrap();
                sender.send(&drains(8, connections)).unwrap();
            }
            sender.send(order).unwrap();
        }
        assert!(sender.has_waiting());
        receiver.set_limit(Some(Duration::from_millis(10))).unwrap();
        let mut received = Vec::new();
        while let Ok(Some((message, _))) = receiver.receive() {
            received.push(message);
            sender.flush().unwrap();
        }
        assert!(!sender.has_waiting());
        let (states, others): (Vec<_>, Vec<_>) =
            received.into_iter().partition(|message| matches!(message, Message::Drains(_)));
        assert_eq!(others, orders);
        for state in [drains(7, last), drains(8, last)] {
            assert_eq!(states.iter().filter(|one| **one == state).count(), 1);
        }
        drop(receiver);
        assert!(sender.send(&Message::Read).is_err());
    }

    #[test]
    fn a_socket_waits_for_room_in_its_turn() {
        let (sender, end) = Channel::pair().unwrap();
        let receiver = Channel::of(end);
        while !sender.has_waiting() {
            sender.send(&Message::Back).unwrap();
        }
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        sender.send_beside(&Message::Stay, socket.into()).unwrap();
        sender.send(&Message::Reading).unwrap();
        let mut received = Vec::new();
        while received.len() < 2 {
            sender.flush().unwrap();
            let (message, fd) = receiver.receive().unwrap().unwrap();
            received.extend(Some((message, fd)).filter(|(message, _)| *message != Message::Back));
        }
        let (last, none) = received.pop().unwrap();
        assert!(last == Message::Reading && none.is_empty());
        let (message, mut fd) = received.pop().unwrap();
        assert_eq!(message, Message::Stay);
        assert_eq!(UdpSocket::from(fd.pop().unwrap()).local_addr().unwrap(), address);
    }

    #[test]
    fn what_waits_for_room_is_bounded() {
        let (sender, end) = Channel::pair().unwrap();
        let sent = (0..100_000).take_while(|_| sender.send(&Message::Back).is_ok()).count();
        assert!((MOST_WAITING..10_000).contains(&sent), "{sent}");
        for process in 0..1000 {
            let _ = sender.send(&drains(process, 0));
        }
        assert_eq!(sender.waiting().draining.len(), MOST_PROCESSES);
        drop(end);
        assert!(sender.flush().is_err());
        assert!(!sender.has_waiting());
    }
}
