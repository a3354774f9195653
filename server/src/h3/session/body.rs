//! Bodies of requests, read or not: what has arrived, errors, resets.

use quiche::h3::Error;

use super::{Http3Session, SCRATCH, code};
use crate::h3::session_context::SessionContext;

impl Http3Session {
    /// Reads all that has arrived of a body, and drops it. Returns the number of bytes.
    pub(super) fn read_and_drop(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
    ) -> Result<u64, Error> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut total = 0_u64;
            loop {
                match self.h3.recv_body(conn, stream, scratch) {
                    Ok(count) => total += count as u64,
                    Err(Error::Done) => return Ok(total),
                    Err(error) => return Err(error),
                }
            }
        })
    }

    pub(super) fn on_read_error(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        error: Error,
        context: &mut SessionContext,
    ) {
        match error {
            Error::TransportError(quiche::Error::StreamReset(_)) => {
                self.on_body_reset(conn, stream, context);
            }
            Error::TransportError(_) => {}
            error => self.fail(conn, code(error), context),
        }
    }

    /// Takes the client's reset of a body. The response goes on if it does not need the body.
    pub(super) fn on_body_reset(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        context: &mut SessionContext,
    ) {
        match self.open.get_mut(&stream) {
            Some(exchange) if exchange.lingering.is_some() && exchange.response.is_some() => {
                exchange.stop_reading();
            }
            _ => self.on_reset(conn, stream, context),
        }
    }
}
