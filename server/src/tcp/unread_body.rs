//! The rest of a request's body that nobody needs.

use std::rc::Rc;

use sluicegate_http::exchange::stall::{LINGERING, LINGERING_BYTES};
use tokio::task::{spawn_local, yield_now};
use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::lingering::IDLE;
use super::open_request::OpenRequest;
use super::request_body::{Part, RequestBody};

/// Most bytes of a body that are read to keep a connection of HTTP/1.1 open.
const MOST_KEPT: usize = 64 * 1024;
/// Turns of the thread in which hyper hands over what has arrived of a body.
const TURNS: usize = 3;

/// Leaves a body that nobody needs. HTTP/2 lets the client finish it for a while, so that a client which reads no response before that
/// gets this one; the stream is then reset by NO_ERROR (RFC 9113 §8.1). A connection of HTTP/1.1 stays open only if the body has arrived.
pub(super) async fn leave(
    connection: &Rc<Connection>,
    request: &OpenRequest,
    mut body: RequestBody,
) {
    if body.is_end_stream() {
        request.unread.set(false);
        return;
    }
    // The connection may end before the body does.
    connection.meter.leave_unread();
    if connection.is_http2() {
        let connection = Rc::clone(connection);
        spawn_local(async move {
            if linger(&connection, body).await {
                connection.meter.on_unread_end();
            }
        });
        return;
    }
    // hyper would respond with 100 to a client that still waits for a status.
    let is_expected = request.awaits_status.get() && request.exchange().received() == 0;
    if !is_expected && drain(&mut body).await {
        connection.meter.on_unread_end();
        request.unread.set(false);
    }
}

/// Reads what has arrived of a body. Returns whether its end has.
async fn drain(body: &mut RequestBody) -> bool {
    let mut left = MOST_KEPT;
    loop {
        let part = tokio::select! {
            biased;
            part = body.next() => part,
            () = turns() => return false,
        };
        match part {
            Part::Data(block) if block.len() <= left => left -= block.len(),
            Part::End(_) => return true,
            _ => return false,
        }
    }
}

/// Lets the other tasks of the thread run.
async fn turns() {
    for _ in 0..TURNS {
        yield_now().await;
    }
}

/// Reads and drops a body of HTTP/2 for a limited time. Returns whether the client has finished it, or sends nothing.
async fn linger(connection: &Connection, mut body: RequestBody) -> bool {
    let dropping = async {
        let mut left = LINGERING_BYTES;
        while left > 0 {
            match timeout(IDLE, body.next()).await {
                Ok(Part::Data(block)) => {
                    // What the server allows counts as work, or an overloaded thread would close the connection.
                    connection.progress.on_received(block.len() as u64);
                    left = left.saturating_sub(block.len());
                }
                _ => return true,
            }
        }
        false
    };
    tokio::select! {
        is_over = dropping => is_over,
        () = sleep(LINGERING) => false,
    }
}
