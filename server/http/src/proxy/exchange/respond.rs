//! Responds to the client with what an upstream sends.

use std::time::Duration;

use sluicegate_base::observe::access::UpstreamTimes;
use tokio::time::timeout;

use super::super::discard::discard;
use super::super::exchange_error::ExchangeError;
use super::super::failure::Failure;
use super::super::location;
use super::super::relay::Relay;
use super::super::tunnel::Tunnel;
use super::super::upstream::ActiveRequest;
use super::super::websocket::Handshake;
use super::{Exchange, UpstreamResponse};
use crate::exchange::handler::Responder;

impl Exchange<'_> {
    /// Opens the client's tunnel, and carries its bytes until the upstream ends it.
    pub(super) async fn tunnel(
        &self,
        active: &ActiveRequest,
        response: UpstreamResponse,
        reply: Responder,
    ) -> Result<(), ExchangeError> {
        self.note_time(|times, passed| times.with_head(passed, false));
        self.report(None);
        let client = self.handshake.as_ref().and_then(Handshake::client);
        let upstream = response.stream.into_tunnel().await;
        let Some((client, upstream)) = client.zip(upstream) else {
            return Err(self.tunnel_failed(active, ExchangeError::Failed(Failure::Closed)));
        };
        let mut writer = reply.head(response.head).await?;
        let tunnel = Tunnel {
            upstream,
            client,
            writer: &mut writer,
            idle_timeout: self.proxy.tunnel_timeout,
        };
        match tunnel.run().await {
            Ok(()) => {
                self.note_time(UpstreamTimes::with_end);
                // Before the end, with which the front writes the line.
                self.report(None);
                writer.end(None).await?;
                Ok(())
            }
            // Before the writer is dropped, which resets the stream.
            Err(error) => Err(self.tunnel_failed(active, error)),
        }
    }

    /// Notes why a tunnel has failed.
    fn tunnel_failed(&self, active: &ActiveRequest, error: ExchangeError) -> ExchangeError {
        if let ExchangeError::Failed(failure) = error {
            active.on_failure(failure, true);
        }
        self.report(Some(error));
        error
    }

    /// Forwards the response, and releases the connection if it is fit for another request.
    pub(super) async fn respond(
        &self,
        active: &ActiveRequest,
        response: UpstreamResponse,
        reply: Responder,
    ) -> Result<(), ExchangeError> {
        let UpstreamResponse { mut stream, mut head, .. } = response;
        let (upstream, client) = (active.upstream().host(), &self.request.head);
        location::rewrite(head.status, &mut head.fields, self.proxy, self.rules, client, upstream);
        let (length, end) = (head.length, head.end);
        self.note_time(|times, passed| times.with_head(passed, end));
        self.report(None);
        let page = self.rules.error_pages().page(head.status);
        let mut is_whole = true;
        if let Some(page) = page.filter(|_| self.proxy.intercept_errors) {
            Box::pin(reply.reply(page.reply(head), self.is_head)).await?;
            if !end && self.upload.finished() {
                let rest = discard(&mut *stream);
                is_whole = Box::pin(timeout(self.proxy.idle_timeout, rest)).await == Ok(true);
            }
        } else {
            let mut writer = reply.head(head).await?;
            if !end {
                let relay = Relay {
                    stream: &mut *stream,
                    upload: &self.upload,
                    idle_timeout: self.proxy.idle_timeout,
                    longest_pause: Duration::ZERO,
                };
                match relay.run(&mut writer, length).await {
                    Ok(trailers) => {
                        self.note_time(UpstreamTimes::with_end);
                        // Before the end, with which the front writes the line.
                        self.report(None);
                        writer.end(trailers).await?;
                    }
                    Err(error) => {
                        if let ExchangeError::Failed(failure) = error {
                            active.on_failure(failure, true);
                        }
                        // Before the writer is dropped, which resets the stream.
                        self.report(Some(error));
                        return Err(error);
                    }
                }
            }
        }
        if !self.upload.finished() {
            self.upload.stop();
            self.pools.tally().count(|c| c.early_answers += 1);
        } else if is_whole {
            stream.release();
        }
        Ok(())
    }
}
