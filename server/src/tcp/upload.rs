//! The body of a request on its way to its handler.

use tokio::sync::oneshot;

use super::request_body::{Part, RequestBody};
use super::tunnel_reader::TunnelReader;

/// Body of a request, until it has ended.
#[derive(Debug)]
pub(super) struct Upload(pub(super) Option<Source>);

/// Source of a body.
#[derive(Debug)]
pub(super) enum Source {
    /// The request.
    Body(RequestBody),
    /// A tunnel that may be opened.
    Opening(oneshot::Receiver<TunnelReader>),
    /// An open tunnel.
    Tunnel(TunnelReader),
}

impl Upload {
    /// Returns whether a part may come.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether all bytes of the body were read, although nobody has looked for its end yet.
    pub(super) fn has_arrived(&self) -> bool {
        matches!(&self.0, Some(Source::Body(body)) if body.is_end_stream())
    }

    /// Stops reading. Returns the body if its end was not read.
    pub(super) fn stop(&mut self) -> Option<RequestBody> {
        match self.0.take() {
            Some(Source::Body(body)) => Some(body),
            _ => None,
        }
    }

    /// Waits for the next part; only while there is a body. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Part {
        let Some(source) = &mut self.0 else {
            return std::future::pending().await;
        };
        if let Source::Opening(opening) = source {
            let Ok(tunnel) = opening.await else {
                // The response opens none.
                self.0 = None;
                return std::future::pending().await;
            };
            *source = Source::Tunnel(tunnel);
        }
        let part = match source {
            Source::Body(body) => body.next().await,
            Source::Tunnel(tunnel) => match tunnel.next().await {
                Ok(block) if block.is_empty() => Part::End(None),
                Ok(block) => Part::Data(block),
                Err(_) => Part::Gone,
            },
            Source::Opening(_) => return std::future::pending().await,
        };
        if !matches!(part, Part::Data(_)) {
            self.0 = None;
        }
        part
    }
}
