//! Messages of another process of the server during an upgrade.

use std::io::{IoSlice, PipeWriter};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, sendmsg, shutdown,
};
use sluicegate_base::properties::Bytes;

use crate::boot::read_offer;
use crate::handover::frame::ForwardedDatagram;
use crate::handover::{Channel, Message};

/// Most descriptors beside a message, more than are taken.
const MOST_BESIDE: usize = 4;
/// Most messages; what is left of the string is not tried. As many fit into the channel.
const MOST: usize = 64;
/// Time for descriptors to be closed, which a process that is just being started may have, too.
const CLOSED: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Reads datagrams, behind a first byte with its highest bit, or else messages: a byte says how many descriptors are beside one, and 0x1e
/// ends it. Returns whether there was any.
pub fn handover(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((first, rest)) if *first >= 0x80 => datagrams(rest),
        _ => messages(bytes),
    }
}

fn datagrams(mut bytes: &[u8]) -> bool {
    let mut any = false;
    while let Ok(Some((frame, length))) = ForwardedDatagram::read(bytes) {
        any = true;
        let mut written = Vec::new();
        frame.write(&mut written);
        assert_eq!(ForwardedDatagram::read(&written), Ok(Some((frame, length))));
        assert_eq!(written.len(), length);
        bytes = &bytes[length..];
    }
    any
}

fn messages(bytes: &[u8]) -> bool {
    let mut bytes = Bytes::new(bytes);
    let (channel, end) = Channel::pair().expect("descriptors");
    let (closed, descriptor) = std::io::pipe().expect("descriptors");
    let mut any = false;
    for _ in 0..MOST {
        if bytes.is_empty() {
            break;
        }
        let beside = usize::from(bytes.byte()) % (MOST_BESIDE + 1);
        let text = bytes.part();
        any |= is_stable(text);
        send(&end, text, &descriptor, beside);
    }
    drop(descriptor);
    shutdown(&end, Shutdown::Both).expect("a socket");
    read_offer(channel);
    // Whatever it was, no descriptor is left behind.
    let mut left = [PollFd::new(&closed, PollFlags::empty())];
    poll(&mut left, Some(&CLOSED)).expect("a pipe");
    assert!(left[0].revents().contains(PollFlags::HUP), "a descriptor is open");
    any
}

/// Checks that a message is the same once it was written and read again. Returns whether there is one.
fn is_stable(text: &[u8]) -> bool {
    let Some(message) = Message::parse(text) else {
        return false;
    };
    let written = message.to_text();
    let again = Message::parse(written.as_bytes());
    assert_eq!(again.as_ref(), Some(&message));
    assert_eq!(again.map(|message| message.to_text()), Some(written));
    true
}

fn send(end: &OwnedFd, text: &[u8], descriptor: &PipeWriter, beside: usize) {
    let descriptors: Vec<BorrowedFd<'_>> = vec![descriptor.as_fd(); beside];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_BESIDE))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if beside > 0 {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    // There may be no room for it.
    let _ = sendmsg(end, &[IoSlice::new(text)], &mut ancillary, flags);
}
