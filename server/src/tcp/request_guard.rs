//! The end of a request, however it comes.

use std::rc::Rc;

use sluicegate_base::observe::access::Outcome;
use sluicegate_http::gate::Ending;

use super::connection::Connection;
use super::open_request::OpenRequest;

/// Counts and records the end of a request when it is dropped.
#[derive(Debug)]
pub(super) struct RequestGuard {
    pub(super) request: Rc<OpenRequest>,
    pub(super) connection: Rc<Connection>,
    number: u64,
}

impl RequestGuard {
    /// Adds the request to its connection.
    pub(super) fn new(connection: &Rc<Connection>, request: Rc<OpenRequest>) -> RequestGuard {
        connection.front.on_begin();
        RequestGuard {
            number: connection.add(Rc::clone(&request)),
            connection: Rc::clone(connection),
            request,
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.connection.remove(self.number);
        let request = &self.request;
        let Some(outcome) = request.exchange().end() else {
            return;
        };
        let front = &self.connection.front;
        let (duration, waits) = request.spent();
        let begun = request.exchange().account().begun();
        let bytes_received = request.exchange().received();
        let ending = Ending {
            begun,
            duration,
            status: request.status.get(),
            bytes_sent: request.sent.get(),
            bytes_received,
            outcome,
            waits,
            path_state: if front.has_log() { request.path_state(&waits) } else { None },
        };
        if outcome == Outcome::Cancelled {
            self.connection.on_cancel();
        }
        front.on_end(&ending, request);
    }
}
