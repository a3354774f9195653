//! Sends a response.

use std::rc::Rc;

use bytes::Bytes;

use super::shared::{Cancelled, Shared};
use crate::http::exchange::Fields;
use crate::http::exchange::message::{Head, ToFront, cost};

/// Sends the response of an exchange. Dropping it before the response begins sends 502, or the status that
/// [`ExchangeHandle::set_abort_status`] set.
#[derive(Debug)]
pub struct Responder {
    shared: Rc<Shared>,
}

impl Responder {
    pub(super) fn new(shared: Rc<Shared>) -> Responder {
        Responder { shared }
    }

    /// Returns the state of the exchange.
    pub(super) fn shared(&self) -> Rc<Shared> {
        Rc::clone(&self.shared)
    }

    /// Sends an informational response (RFC 9110 §15.2).
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub async fn interim(&mut self, status: u16, fields: Fields) -> Result<(), Cancelled> {
        let size: usize = fields.iter().map(|(n, v)| n.as_str().len() + v.len()).sum();
        self.shared.spend(cost(size)).await?;
        self.shared.send(ToFront::Interim(status, fields));
        Ok(())
    }

    /// Begins the final response. With `end` set in the head it is complete.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub async fn head(self, head: Head) -> Result<BodySender, Cancelled> {
        if self.shared.gone.get() {
            return Err(Cancelled);
        }
        self.shared.begun.set(true);
        self.shared.ended.set(head.end);
        self.shared.send(ToFront::Head(head));
        Ok(BodySender {
            shared: Rc::clone(&self.shared),
        })
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.shared.begun.get() {
            self.shared.begun.set(true);
            self.shared.ended.set(true);
            self.shared
                .send(ToFront::Abort(self.shared.abort_status.get()));
        }
    }
}

/// Sends the body of a response. Dropping it before the end resets the client's stream: a truncated body must not look
/// whole.
#[derive(Debug)]
pub struct BodySender {
    shared: Rc<Shared>,
}

impl BodySender {
    /// Waits until [`BodySender::data`] would send a block at once.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub async fn ready(&mut self) -> Result<(), Cancelled> {
        self.shared.spend(0).await
    }

    /// Sends a block, once the client has taken enough of the earlier ones. The memory behind it should not be much larger
    /// than the block.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub async fn data(&mut self, block: Bytes) -> Result<(), Cancelled> {
        if block.is_empty() {
            return Ok(());
        }
        self.shared.spend(cost(block.len())).await?;
        self.shared.send(ToFront::Data(block));
        Ok(())
    }

    /// Completes the response.
    pub fn end(self, trailers: Option<Fields>) {
        if !self.shared.ended.replace(true) {
            self.shared.send(ToFront::End(trailers));
        }
    }
}

impl Drop for BodySender {
    fn drop(&mut self) {
        if !self.shared.ended.replace(true) {
            self.shared
                .send(ToFront::Abort(self.shared.abort_status.get()));
        }
    }
}
