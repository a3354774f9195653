//! Requests that hyper or h2 refuses before the service receives them: they are counted, and recorded, as every other request.

use std::time::Duration;

use sluicegate_base::observe::access::Outcome;
use sluicegate_base::observe::account::WaitTimes;
use sluicegate_http::gate::{Ending, RequestRecord};

use super::connection::Connection;
use super::open_request::OpenRequest;
use super::refused_head::RefusedHead;

/// Records the requests of HTTP/2 that the service did not receive; called when the connection has been polled.
pub(super) fn record_all(connection: &Connection) {
    if connection.meter.is_blocked() {
        connection.heads.forget_served();
    } else {
        let refused = connection.heads.take_refused();
        refused.into_iter().for_each(|head| record(connection, head));
    }
}

/// Counts a request of which the head was refused, and writes its line.
pub(super) fn record(connection: &Connection, refused: RefusedHead) {
    let front = &connection.front;
    let status = refused.status(connection.is_http2());
    front.count(|counters| {
        counters.requests.requests += 1;
        if connection.is_http2() {
            counters.connections.http2 += 1;
        } else {
            counters.connections.http1 += 1;
        }
        if let Some(status) = status {
            counters.requests.responses.record(status);
        }
        refused.count(&mut counters.requests);
    });
    let (peer, site) = (connection.peer.clone(), &front.config().site);
    let mut record = RequestRecord::without_head(peer, site, front.has_log());
    if let Some(record) = &mut record {
        record.set_cause(refused.cause());
    }
    let now = front.now();
    let ending = Ending {
        begun: now,
        duration: Duration::ZERO,
        status,
        bytes_sent: 0,
        bytes_received: 0,
        outcome: if status.is_some() { Outcome::Complete } else { Outcome::Reset },
        waits: WaitTimes::default(),
        path_state: None,
    };
    front.on_begin();
    let (progress, meter) = (&connection.progress, &connection.meter);
    let request = OpenRequest::new(false, record, None, now, progress, meter, None);
    front.on_end(&ending, &request);
}
