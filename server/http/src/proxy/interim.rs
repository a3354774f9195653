//! Collects the informational responses of an upstream for the client.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use http::StatusCode;

use super::response;
use crate::exchange::Fields;

/// Largest number of informational responses to one request, 100 included. More are a failure of the upstream.
pub(super) const MAX_INTERIM: u32 = 16;

/// Informational responses that have arrived.
#[derive(Debug, Default)]
pub(super) struct Interims {
    waiting: RefCell<VecDeque<(u16, Fields)>>,
    seen: Cell<u32>,
}

impl Interims {
    /// Adds one.
    pub(super) fn add(&self, status: StatusCode, fields: Fields) {
        let seen = self.seen.get();
        self.seen.set(seen.saturating_add(1));
        // The front itself sends 100. HTTP/2 and HTTP/3 have no 101 (RFC 9113 §8.6), so it has no meaning from an upstream that speaks HTTP/2.
        let is_own = matches!(status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS);
        if seen < MAX_INTERIM && !is_own {
            self.waiting.borrow_mut().push_back((status.as_u16(), fields));
        }
    }

    /// Moves those of another collection behind these.
    pub(super) fn take_from(&self, other: &Interims) {
        self.seen.set(self.seen.get().saturating_add(other.seen.take()));
        self.waiting.borrow_mut().append(&mut other.waiting.borrow_mut());
    }

    /// Returns whether more than [`MAX_INTERIM`] have arrived.
    pub(super) fn too_many(&self) -> bool {
        self.seen.get() > MAX_INTERIM
    }

    /// Returns whether one waits to be forwarded.
    pub(super) fn waiting_any(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Returns the oldest one that was not forwarded yet, without the fields of its connection.
    pub(super) fn next(&self) -> Option<(u16, Fields)> {
        let (status, fields) = self.waiting.borrow_mut().pop_front()?;
        Some((status, response::pass(fields)))
    }
}
