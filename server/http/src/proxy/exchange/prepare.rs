//! Prepares the request for an upstream.

use tokio::task::yield_now;
use tokio::time::timeout;

use super::super::exchange_error::ExchangeError;
use super::super::request::{rarely_has_body, rewrite};
use super::super::request_error::RequestError;
use super::super::upstream_head::{Framing, UpstreamHead};
use super::Exchange;
use crate::exchange::message::Request;

/// Turns of the thread in which a front hands over what has arrived of a body.
const TURNS: usize = 3;

impl Exchange<'_> {
    /// Returns the head of the request for an upstream, `host`.
    pub(in crate::proxy) fn rewritten(
        &self,
        framing: Framing,
        host: &str,
    ) -> Result<UpstreamHead<'_>, RequestError> {
        let path = &self.request.head.path;
        let other = self.rules.rewrite(&self.request.head).transpose();
        let other = other.map_err(|_| RequestError::Path)?;
        let path = if let Some(other) = &other {
            other.forward(0)
        } else if self.proxy.strip_prefix {
            self.rules.rest(path)
        } else if self.proxy.raw_path {
            path.raw()
        } else {
            path.forward(0)
        };
        let mut rewritten = rewrite(&self.request, self.proxy, self.rules, path, framing, host)?;
        if let Some(handshake) = &self.handshake {
            handshake.ask(&mut rewritten);
        }
        Ok(rewritten)
    }

    /// Chooses the framing of the request's body. A client may end its stream only after the head. For methods that rarely
    /// have a body, this waits for the body's first byte or its end, so that such a request does not become a chunked one. For others,
    /// whose client may wait for the response before it sends anything, it waits only for what has arrived with the head.
    pub(in crate::proxy) async fn framing(&self) -> Result<Framing, ExchangeError> {
        let Request { head, content_length, has_body, .. } = &*self.request;
        if self.handshake.is_some() {
            return Ok(Framing::None);
        }
        if head.is_tunnel() {
            return Err(RequestError::Tunnel.into());
        }
        match (*content_length, *has_body) {
            (Some(0), _) => return Ok(Framing::Length(0)),
            (Some(length), true) => return Ok(Framing::Length(length)),
            (Some(_), false) => return Err(RequestError::Length.into()),
            (None, false) => return Ok(Framing::None),
            (None, true) => {}
        }
        if rarely_has_body(&head.method) {
            let empty = timeout(self.proxy.idle_timeout, self.upload.is_empty());
            let empty = Box::pin(empty).await;
            if empty.map_err(|_| ExchangeError::ClientStalled)? {
                return Ok(Framing::None);
            }
        } else if self.has_ended().await {
            return Ok(Framing::None);
        }
        if self.upload.broken() {
            return Err(ExchangeError::Cancelled);
        }
        Ok(Framing::Chunked)
    }

    /// Returns whether the end of an empty body has arrived with the head, as the front hands it over.
    async fn has_ended(&self) -> bool {
        tokio::select! {
            biased;
            empty = self.upload.is_empty() => empty,
            () = async {
                for _ in 0..TURNS {
                    yield_now().await;
                }
            } => false,
        }
    }
}
