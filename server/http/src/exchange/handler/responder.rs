//! Sends a response.

use std::rc::Rc;

use bytes::Bytes;

use super::shared::{Cancelled, Shared};
use crate::exchange::Fields;
use crate::exchange::compress::{BodyEncoder, Failed, Offer};
use crate::exchange::lent::LentRange;
use crate::exchange::message::{Head, Opening, ToFront, cost};

/// Sends the response of an exchange. Dropping it before the response begins sends 502, or the status that
/// [`ExchangeHandle::set_abort_status`](super::ExchangeHandle::set_abort_status) set.
#[derive(Debug)]
pub struct Responder {
    shared: Rc<Shared>,
    offer: Option<Box<Offer>>,
}

impl Responder {
    pub(super) fn new(shared: Rc<Shared>) -> Responder {
        Responder { shared, offer: None }
    }

    /// Compresses the response if its head is fit for that. The handler does not notice.
    pub fn offer_compression(&mut self, offer: Offer) {
        self.offer = Some(Box::new(offer));
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
    pub async fn head(self, mut head: Head) -> Result<BodySender, Cancelled> {
        if self.shared.gone.get() {
            return Err(Cancelled);
        }
        let encoder = self.offer.as_ref().and_then(|offer| offer.begin(&mut head));
        self.shared.begun.set(true);
        self.shared.ended.set(head.end);
        let opens = |opening: Opening| opening.is(head.status);
        self.shared.is_tunnel_open.set(self.shared.opening.is_some_and(opens));
        self.shared.send(ToFront::Head(head));
        Ok(BodySender { shared: Rc::clone(&self.shared), encoder })
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.shared.begun.get() {
            self.shared.begun.set(true);
            self.shared.ended.set(true);
            self.shared.send(ToFront::Abort(self.shared.abort_status.get()));
        }
    }
}

/// Sends the body of a response. Dropping it before the end resets the client's stream: a truncated body must not look
/// whole.
#[derive(Debug)]
pub struct BodySender {
    shared: Rc<Shared>,
    encoder: Option<BodyEncoder>,
}

/// A body whose compressor failed is not completed, as if the client had cancelled it.
impl From<Failed> for Cancelled {
    fn from(_: Failed) -> Cancelled {
        tracing::error!("a response is reset because its compressor failed");
        Cancelled
    }
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
        match &mut self.encoder {
            None => self.send(block).await,
            Some(encoder) => {
                let blocks = encoder.data(block).await?;
                self.send_all(blocks).await
            }
        }
    }

    /// Returns whether [`BodySender::lend`] is of use: the front reads ranges, and the body is sent as it is.
    pub fn may_lend(&self) -> bool {
        self.shared.lends && self.encoder.is_none()
    }

    /// Lends the front a range, the next part of the body, if [`BodySender::may_lend`]. Returns how many bytes of it the front has
    /// read. If the range [completes](LentRange::completes) the response, nothing may follow.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub async fn lend(&mut self, range: LentRange) -> Result<u64, Cancelled> {
        let completing = range.completing();
        self.shared.range_read.set(None);
        self.shared.send(ToFront::Range(Box::new(range)));
        let read = self.shared.range_read().await?;
        if completing == Some(read) {
            self.shared.ended.set(true);
        }
        Ok(read)
    }

    /// Returns whether bytes of the blocks so far wait for more of them, which [`BodySender::flush`] ends.
    pub fn keeps_bytes(&self) -> bool {
        self.encoder.as_ref().is_some_and(BodyEncoder::keeps_input)
    }

    /// Sends what is kept of the blocks so far. A handler calls it when it does not know how soon it has the next one.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub async fn flush(&mut self) -> Result<(), Cancelled> {
        match &mut self.encoder {
            Some(encoder) if encoder.keeps_input() => {
                let blocks = encoder.flush().await?;
                self.send_all(blocks).await
            }
            _ => Ok(()),
        }
    }

    /// Completes the response.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub async fn end(mut self, trailers: Option<Fields>) -> Result<(), Cancelled> {
        if let Some(encoder) = self.encoder.take() {
            let blocks = encoder.finish().await?;
            self.send_all(blocks).await?;
        }
        if !self.shared.ended.replace(true) {
            self.shared.send(ToFront::End(trailers));
        }
        Ok(())
    }

    async fn send(&self, block: Bytes) -> Result<(), Cancelled> {
        self.shared.spend(cost(block.len())).await?;
        self.shared.send(ToFront::Data(block));
        Ok(())
    }

    async fn send_all(&self, blocks: Vec<Bytes>) -> Result<(), Cancelled> {
        for block in blocks {
            self.send(block).await?;
        }
        Ok(())
    }
}

impl Drop for BodySender {
    fn drop(&mut self) {
        if !self.shared.ended.replace(true) {
            self.shared.send(ToFront::Abort(self.shared.abort_status.get()));
        }
    }
}
