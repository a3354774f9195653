//! Tickets of an upstream, by which further connections resume a session (RFC 8446 §2.2).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use sluicegate_quic_client::{Http3Client, SavedSession};

/// Largest number of tickets of one upstream: each resumes one connection (RFC 8446 §C.4).
const MAX_TICKETS: usize = 8;

/// Tickets that an upstream has sent, the newest last. All come from connections of one context to one upstream.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Tickets {
    kept: Rc<RefCell<Vec<SavedSession>>>,
    /// Whether the connection that has this value has kept its own.
    has_kept: Cell<bool>,
}

impl Tickets {
    /// Returns the same tickets, for a connection that keeps one.
    pub(super) fn of_connection(&self) -> Tickets {
        Tickets { kept: Rc::clone(&self.kept), has_kept: Cell::new(false) }
    }

    /// Removes the newest ticket.
    pub(super) fn take(&self) -> Option<SavedSession> {
        self.kept.borrow_mut().pop()
    }

    /// Keeps the ticket that a connection has received, once.
    pub(in crate::proxy) fn keep(&self, client: &Http3Client) {
        if !self.has_kept.get()
            && let Some(session) = client.session()
        {
            self.has_kept.set(true);
            let mut kept = self.kept.borrow_mut();
            if kept.len() >= MAX_TICKETS {
                kept.remove(0);
            }
            kept.push(session);
        }
    }
}
