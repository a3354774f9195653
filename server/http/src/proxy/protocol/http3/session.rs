//! The client of a connection, with the exchanges on it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Waker};

use sluicegate_quic_client::{Cause, Closed, Event, Header, Http3Client};

use super::fields::RequestHead;
use super::inbox::{Inbox, StreamEnd};
use crate::proxy::failure::Failure;

/// H3_EXCESSIVE_LOAD (RFC 9114 §8.1).
const EXCESSIVE_LOAD: u64 = 0x107;
/// H3_REQUEST_REJECTED.
const REQUEST_REJECTED: u64 = 0x10b;
/// H3_MESSAGE_ERROR.
const MESSAGE_ERROR: u64 = 0x10e;
/// H3_VERSION_FALLBACK.
const VERSION_FALLBACK: u64 = 0x110;

/// Reason why the stream of a request is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unopened {
    /// The upstream allows none now.
    NoRoom,
    /// It takes no further requests on this connection.
    Closed,
}

/// The client of a connection, with the exchanges on it.
pub(super) struct Session {
    pub(super) client: Http3Client,
    /// Exchanges by their streams.
    open: BTreeMap<u64, Rc<Inbox>>,
    /// Exchanges that wait for a stream.
    waiting: Vec<Waker>,
    /// Largest header section of a response, bytes.
    header_bytes: u64,
    /// Whether the upstream takes no further requests.
    is_going_away: bool,
    /// Why the connection is closed.
    end: Option<Failure>,
}

impl Session {
    pub(super) fn new(client: Http3Client, header_bytes: u64) -> Session {
        Session {
            client,
            open: BTreeMap::new(),
            waiting: Vec::new(),
            header_bytes,
            is_going_away: false,
            end: None,
        }
    }

    /// Returns whether the upstream still takes requests.
    pub(super) fn is_open(&self) -> bool {
        self.end.is_none() && !self.is_going_away
    }

    /// Returns why the connection is closed, if it is.
    pub(super) fn end(&self) -> Option<Failure> {
        self.end
    }

    /// Returns the number of streams that exchanges have open.
    pub(super) fn streams(&self) -> usize {
        self.open.len()
    }

    /// Opens the stream of a request, and sends its head; `is_whole` if it has no body.
    ///
    /// # Errors
    /// There is no room, or no further request may be sent.
    pub(super) fn request(
        &mut self,
        head: &RequestHead,
        is_whole: bool,
        inbox: &Rc<Inbox>,
    ) -> Result<u64, Unopened> {
        if !self.is_open() {
            return Err(Unopened::Closed);
        }
        if !self.client.has_room() {
            return Err(Unopened::NoRoom);
        }
        match self.client.request_fields(head, is_whole) {
            Ok(Some(stream)) => {
                self.open.insert(stream, Rc::clone(inbox));
                Ok(stream)
            }
            Ok(None) => Err(Unopened::NoRoom),
            Err(_) => Err(Unopened::Closed),
        }
    }

    /// Has a task woken when there may be room for a stream.
    pub(super) fn wait_for_room(&mut self, cx: &Context<'_>) {
        if !self.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.waiting.push(cx.waker().clone());
        }
    }

    /// Forgets the exchange on a stream. What is still under way is cancelled: the response, and the request unless it `is_sent`.
    pub(super) fn forget(&mut self, stream: u64, is_sent: bool) {
        if let Some(inbox) = self.open.remove(&stream) {
            if inbox.end() != Some(StreamEnd::Whole) {
                self.client.cancel_response(stream);
            }
            if !is_sent {
                self.client.cancel_body(stream);
            }
        }
    }

    /// Takes what HTTP/3 reports, and wakes the exchanges that it concerns.
    pub(super) fn take_events(&mut self) {
        // An error has closed the connection.
        while let Ok(Some((stream, event))) = self.client.poll() {
            self.on_event(stream, event);
        }
        if self.end.is_none()
            && let Some(closed) = self.client.closed()
        {
            self.end_with(failure(&closed));
        }
    }

    /// Takes the fact that the upstream cannot be reached any more.
    pub(super) fn break_off(&mut self) {
        self.end_with(Failure::Closed);
    }

    fn end_with(&mut self, failure: Failure) {
        self.end.get_or_insert(failure);
        self.open.values().for_each(|inbox| inbox.wake());
        self.wake_waiting();
    }

    fn on_event(&mut self, stream: u64, event: Event) {
        if matches!(event, Event::GoAway) {
            self.is_going_away = true;
            for inbox in self.open.range(stream..).map(|(_, inbox)| inbox) {
                inbox.on_end(StreamEnd::Unprocessed(Failure::Closed));
            }
            self.wake_waiting();
            return;
        }
        // Its client may have left.
        let Some(inbox) = self.open.get(&stream).map(Rc::clone) else {
            return;
        };
        match event {
            Event::Head(section) => self.on_section(stream, &inbox, &section),
            Event::Body => inbox.wake(),
            Event::End { is_whole: true } => inbox.on_end(StreamEnd::Whole),
            Event::End { is_whole: false } => inbox.on_end(StreamEnd::Failed(Failure::Malformed)),
            Event::Reset(code) => inbox.on_end(reset(code)),
            Event::GoAway => {}
        }
    }

    fn on_section(&mut self, stream: u64, inbox: &Inbox, section: &[Header]) {
        if let Err(failure) = inbox.on_section(section, self.header_bytes) {
            let code =
                if failure == Failure::HeadTooLarge { EXCESSIVE_LOAD } else { MESSAGE_ERROR };
            self.client.abort(stream, code);
        }
    }

    /// Wakes the exchanges that may send more than before.
    pub(super) fn wake_senders(&mut self) {
        self.wake_waiting();
        if self.open.values().any(|inbox| inbox.wants_room.get()) {
            for stream in self.client.quic().writable() {
                let inbox = self.open.get(&stream);
                if let Some(inbox) = inbox.filter(|inbox| inbox.wants_room.get()) {
                    inbox.wake();
                }
            }
        }
    }

    fn wake_waiting(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

/// Returns the end of a stream that the upstream has reset.
fn reset(code: u64) -> StreamEnd {
    match code {
        REQUEST_REJECTED => StreamEnd::Unprocessed(Failure::StreamRefused),
        VERSION_FALLBACK => StreamEnd::Failed(Failure::Http1Required),
        _ => StreamEnd::Failed(Failure::StreamReset),
    }
}

/// Returns the failure of exchanges without a response on a connection that has ended.
fn failure(closed: &Closed) -> Failure {
    match &closed.cause {
        Cause::ByClient(reason) if reason.is_http && reason.code == EXCESSIVE_LOAD => {
            Failure::HeadTooLarge
        }
        Cause::ByClient(_) => Failure::Malformed,
        _ => Failure::Closed,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use sluicegate_quic_client::CloseReason;

    use super::*;

    #[test]
    fn ends_of_streams_and_connections_are_told_apart() {
        assert_eq!(reset(0x10b), StreamEnd::Unprocessed(Failure::StreamRefused));
        assert_eq!(reset(0x110), StreamEnd::Failed(Failure::Http1Required));
        assert_eq!(reset(0x102), StreamEnd::Failed(Failure::StreamReset));
        let peer = SocketAddr::from(([127, 0, 0, 1], 443));
        let of = |cause| failure(&Closed { peer, cause });
        let reason = |code| CloseReason { is_http: true, code, text: String::new() };
        assert_eq!(of(Cause::ByClient(reason(0x107))), Failure::HeadTooLarge);
        assert_eq!(of(Cause::ByClient(reason(0x105))), Failure::Malformed);
        assert_eq!(of(Cause::ByPeer(reason(0x107))), Failure::Closed);
        assert_eq!(of(Cause::Silent), Failure::Closed);
    }
}
