//! The way for messages between the two processes: whole messages, each with descriptors beside it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown,
    socketpair,
};

use super::message::Message;

/// Largest message, bytes.
const LARGEST: usize = 16 * 1024;
/// Descriptors beside a message at most.
const MOST_DESCRIPTORS: usize = 2;

/// An end of the way for messages.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// Makes both ends.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub(crate) fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(one), other))
    }

    /// Takes an end that another process has passed.
    pub(crate) fn of(end: OwnedFd) -> Channel {
        Channel(end)
    }

    /// Closes it, for the other process too.
    pub(crate) fn close(&self) {
        // It may be closed already.
        let _ = shutdown(&self.0, Shutdown::Both);
    }

    /// Bounds the time for which [`Channel::receive`] waits; `None` for no bound.
    ///
    /// # Errors
    /// It is no socket.
    pub(crate) fn set_limit(&self, limit: Option<Duration>) -> io::Result<()> {
        Ok(set_socket_timeout(&self.0, Timeout::Recv, limit)?)
    }

    /// Sends a message with a descriptor beside it, if it has one.
    ///
    /// # Errors
    /// The other process has ended.
    pub(crate) fn send(&self, message: &Message, descriptor: Option<&OwnedFd>) -> io::Result<()> {
        self.send_with(message, descriptor, SendFlags::empty())
    }

    /// Sends a message if there is room for it at once: the other process may hang.
    ///
    /// # Errors
    /// There is none, or the other process has ended.
    pub(crate) fn try_send(&self, message: &Message) -> io::Result<()> {
        self.send_with(message, None, SendFlags::DONTWAIT)
    }

    fn send_with(
        &self,
        message: &Message,
        descriptor: Option<&OwnedFd>,
        flags: SendFlags,
    ) -> io::Result<()> {
        let text = message.to_text();
        let descriptors: Vec<_> = descriptor.iter().map(|fd| fd.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let text = [IoSlice::new(text.as_bytes())];
        sendmsg(&self.0, &text, &mut ancillary, SendFlags::NOSIGNAL | flags)?;
        Ok(())
    }

    /// Waits for the next message. Returns `None` once the other process has ended.
    ///
    /// # Errors
    /// None came in time, or it is none of this protocol.
    pub(crate) fn receive(&self) -> io::Result<Option<(Message, Option<OwnedFd>)>> {
        let mut text = vec![0; LARGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut text)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            match recvmsg(&self.0, &mut parts, &mut ancillary, flags) {
                Err(Errno::INTR) => {}
                received => break received?,
            }
        };
        let descriptor = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        if received.bytes == 0 {
            return Ok(None);
        }
        let message = Message::parse(text.get(..received.bytes).unwrap_or_default());
        let message = message.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Some((message, descriptor)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::handover::SocketKind;

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
        sender.send(&message, Some(&socket.into())).unwrap();
        sender.send(&Message::Read, None).unwrap();
        drop(sender);
        let (received, fd) = receiver.receive().unwrap().unwrap();
        assert_eq!(received, message);
        assert_eq!(UdpSocket::from(fd.unwrap()).local_addr().unwrap(), address);
        let (received, fd) = receiver.receive().unwrap().unwrap();
        assert!(received == Message::Read && fd.is_none());
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
}
