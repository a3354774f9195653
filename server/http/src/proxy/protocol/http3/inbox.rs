//! What has arrived for an exchange: the task of its connection puts it there, and the exchange takes it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};

use http::HeaderMap;
use sluicegate_quic_client::Header;

use super::fields;
use crate::proxy::failure::Failure;
use crate::proxy::interim::Interims;
use crate::proxy::response::ReceivedHead;

/// End of what the upstream sends on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The message is whole.
    Whole,
    /// It is not, for this reason if it is without a response yet.
    Failed(Failure),
    /// The upstream says that it has not processed the request.
    Unprocessed(Failure),
}

/// Sections and the end of a response, until its exchange takes them. The body stays in its stream.
#[derive(Debug)]
pub(super) struct Inbox {
    interims: Interims,
    head: RefCell<Option<ReceivedHead>>,
    /// Whether the final response's head has come, so that a further section is that of its trailers.
    has_head: Cell<bool>,
    trailers: RefCell<Option<HeaderMap>>,
    end: Cell<Option<StreamEnd>>,
    waker: RefCell<Option<Waker>>,
    /// Whether the request's body waits for room.
    pub(super) wants_room: Cell<bool>,
}

impl Inbox {
    /// Returns an empty one.
    pub(super) fn new() -> Rc<Inbox> {
        Rc::new(Inbox {
            interims: Interims::default(),
            head: RefCell::default(),
            has_head: Cell::new(false),
            trailers: RefCell::default(),
            end: Cell::new(None),
            waker: RefCell::default(),
            wants_room: Cell::new(false),
        })
    }

    /// Takes a header section of at most `limit` bytes.
    ///
    /// # Errors
    /// It is malformed or too large, and the exchange has failed.
    pub(super) fn on_section(&self, section: &[Header], limit: u64) -> Result<(), Failure> {
        let taken = if fields::size(section) as u64 > limit {
            Err(Failure::HeadTooLarge)
        } else if self.has_head.get() {
            let trailers = fields::response_trailers(section).ok_or(Failure::Malformed);
            trailers.map(|trailers| {
                self.trailers.replace(Some(trailers));
            })
        } else {
            fields::response(section).ok_or(Failure::Malformed).map(|head| self.on_head(head))
        };
        if let Err(failure) = taken {
            self.on_end(StreamEnd::Failed(failure));
        }
        self.wake();
        taken
    }

    fn on_head(&self, head: ReceivedHead) {
        if head.status.is_informational() {
            self.interims.add(head.status, head.fields);
        } else {
            self.has_head.set(true);
            self.head.replace(Some(head));
        }
    }

    /// Takes the end of the stream. The first one counts.
    pub(super) fn on_end(&self, end: StreamEnd) {
        if self.end.get().is_none() {
            self.end.set(Some(end));
        }
        self.wake();
    }

    /// Wakes the exchange.
    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Has the exchange woken when something has arrived.
    pub(super) fn wait(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Moves the informational responses that have come to `interims`.
    pub(super) fn move_interims(&self, interims: &Interims) {
        interims.take_from(&self.interims);
    }

    pub(super) fn take_head(&self) -> Option<ReceivedHead> {
        self.head.take()
    }

    pub(super) fn has_trailers(&self) -> bool {
        self.trailers.borrow().is_some()
    }

    pub(super) fn take_trailers(&self) -> Option<HeaderMap> {
        self.trailers.take()
    }

    pub(super) fn end(&self) -> Option<StreamEnd> {
        self.end.get()
    }
}
