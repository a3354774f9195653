//! The open requests of a connection.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use sluicegate_base::observe::connections::{RequestSnapshot, SHOWN_REQUESTS};

use super::link_account::LinkState;
use super::open_request::OpenRequest;

/// The open requests of a connection, by number.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    open: RefCell<BTreeMap<u64, Rc<OpenRequest>>>,
    /// Number of the request accepted last.
    taken: Cell<u64>,
}

impl OpenRequests {
    /// Adds a request and returns its number, and whether it is the only one.
    pub(super) fn add(&self, request: Rc<OpenRequest>) -> (u64, bool) {
        let number = self.taken.get() + 1;
        self.taken.set(number);
        let mut open = self.open.borrow_mut();
        open.insert(number, request);
        (number, open.len() == 1)
    }

    /// Removes a request that has ended. Returns whether it was the last one.
    pub(super) fn remove(&self, number: u64) -> bool {
        let mut open = self.open.borrow_mut();
        if let Some(request) = open.remove(&number) {
            request.leave_connection();
        }
        open.is_empty()
    }

    /// Returns the number of the request accepted last.
    pub(super) fn taken(&self) -> u64 {
        self.taken.get()
    }

    /// Lends the open requests.
    pub(super) fn with_open<T>(
        &self,
        using: impl FnOnce(&BTreeMap<u64, Rc<OpenRequest>>) -> T,
    ) -> T {
        using(&self.open.borrow())
    }

    /// Returns whether one of them is a tunnel.
    pub(super) fn have_tunnel(&self) -> bool {
        self.open.borrow().values().any(|request| request.exchange().is_tunnel())
    }

    /// Returns what the oldest of them are now, on a connection in this state, with their targets if `is_named`.
    pub(super) fn snapshots(&self, connection: &LinkState, is_named: bool) -> Vec<RequestSnapshot> {
        let open = self.open.borrow();
        let oldest = open.iter().take(SHOWN_REQUESTS);
        oldest.map(|(number, request)| request.snapshot(*number, connection, is_named)).collect()
    }
}
