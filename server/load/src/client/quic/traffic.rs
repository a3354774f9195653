//! Bytes of a connection: responses in, bodies and packets out.

use std::io;

use sluicegate_quic_client::{BatchLimits, BodySent, Event};

use super::{Quic, REJECTED, SEND_AGAIN};
use crate::client::exchanges::Exchanges;
use crate::context::Context;
use crate::heads::{CountedHead, Heads};

impl Quic {
    /// Processes what HTTP/3 reports.
    pub(super) fn take_events(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) {
        // An error has closed the connection.
        while let Ok(Some((stream, event))) = self.client.poll() {
            match event {
                Event::Head(_) => {
                    // The connection is closed if the head cannot be decoded.
                    if let Some(head) = self.head(&mut cx.heads) {
                        exchanges.on_head(stream, &head, cx);
                    }
                }
                Event::Body => {
                    // An error ends the stream or the connection, and is reported there.
                    while let Ok(bytes @ 1..) = self.client.read_body(stream, &mut cx.buffers.body)
                    {
                        exchanges.on_body(stream, bytes, cx);
                    }
                }
                Event::End { is_whole } => self.on_end(stream, is_whole, exchanges, cx),
                Event::Reset(REJECTED) if exchanges.has_no_head(stream) => {
                    exchanges.on_rejected(stream);
                    self.cancel_upload(stream);
                }
                Event::Reset(_) => self.on_end(stream, false, exchanges, cx),
                Event::GoAway => {
                    let unprocessed = exchanges.on_goaway(stream);
                    unprocessed.into_iter().for_each(|stream| self.cancel_upload(stream));
                }
            }
        }
    }

    /// Returns what the head says that has just arrived.
    fn head(&mut self, heads: &mut Heads) -> Option<CountedHead> {
        let (http, quic) = self.client.http_mut()?;
        let known = heads.find(http.section());
        known.or_else(|| {
            let fields = http.decode_section(quic).ok()?;
            let head = CountedHead::new(&fields, http.section().len());
            heads.remember(http.section(), head);
            Some(head)
        })
    }

    fn on_end(
        &mut self,
        stream: u64,
        whole: bool,
        exchanges: &mut Exchanges,
        cx: &mut Context<'_>,
    ) {
        // A server that has responded to half a request reads no more of it.
        self.cancel_upload(stream);
        exchanges.on_end(stream, whole, cx);
    }

    /// Sends no more of a request's body.
    fn cancel_upload(&mut self, stream: u64) {
        if let Some(at) = self.uploads.iter().position(|upload| *upload == stream) {
            self.uploads.remove(at);
            self.client.cancel_body(stream);
        }
    }

    /// Sends bodies of requests, as far as the server's windows allow.
    pub(super) fn upload(&mut self, exchanges: &mut Exchanges, cx: &Context<'_>) {
        let Some(body) = cx.plan.body.as_deref() else {
            return;
        };
        let (client, open) = (&mut self.client, &mut exchanges.open);
        self.uploads.retain(|stream| {
            let Some(request) = open.get_mut(stream) else {
                return false;
            };
            match client.send_body(*stream, &body[request.sent..], true) {
                BodySent::Bytes(sent) => {
                    request.sent += sent;
                    request.sent < body.len()
                }
                BodySent::Blocked => true,
                // The response says what the server wants.
                BodySent::Stopped => false,
            }
        });
    }

    /// Sends the packets that may leave now, in GSO batches.
    ///
    /// # Errors
    /// The server's port is closed or out of reach.
    pub(super) fn send_packets(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let most = if cx.plan.options.no_udp_gso { 1 } else { self.socket.max_datagrams() };
        let limits = BatchLimits { size: cx.plan.options.max_udp_payload_size, most };
        let room = &mut cx.buffers.send;
        let flushed = self.socket.flush(&mut self.client, cx.now, room, limits)?;
        if cx.counts() {
            cx.tally.datagrams_sent += flushed.datagrams;
        }
        if let Some(size) = flushed.too_big {
            let peer = self.socket.peer;
            cx.note(|| {
                format!("no way to {peer} for datagrams of {size} bytes: smaller ones follow")
            });
        }
        let again = flushed.is_blocked.then_some(cx.now + SEND_AGAIN);
        self.release = again.or(flushed.release);
        Ok(())
    }
}
