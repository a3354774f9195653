//! Bytes of a connection: responses in, bodies and packets out.

use std::io;

use quiche::{Shutdown, h3};

use super::socket::{BATCH, Sent};
use super::{CANCELLED, INTERNAL_ERROR, Quic, REJECTED, SEND_AGAIN};
use crate::client::exchanges::Exchanges;
use crate::context::Context;
use crate::heads::{Head, Heads};

impl Quic {
    /// Processes what HTTP/3 reports.
    pub(super) fn take_events(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) {
        while let Some(h3) = self.h3.as_mut() {
            let (stream, event) = match h3.poll(&mut self.quic) {
                Ok(found) => found,
                Err(h3::Error::Done) => return,
                Err(_) => {
                    // quiche has closed the connection with the error's code, or it is closed now.
                    let _ = self.quic.close(true, INTERNAL_ERROR, b"");
                    return;
                }
            };
            match event {
                h3::Event::Headers { .. } => {
                    // The connection is closed if the head cannot be decoded.
                    if let Some(head) = self.head(&mut cx.heads) {
                        exchanges.on_head(stream, &head, cx);
                    }
                }
                h3::Event::Data => self.on_body(stream, exchanges, cx),
                h3::Event::Finished => {
                    let whole = !h3.finished_within_frame();
                    self.on_end(stream, whole, exchanges, cx);
                }
                h3::Event::Reset(REJECTED) if exchanges.has_no_head(stream) => {
                    exchanges.on_rejected(stream);
                    self.cancel_upload(stream);
                }
                h3::Event::Reset(_) => self.on_end(stream, false, exchanges, cx),
                h3::Event::GoAway => {
                    let unprocessed = exchanges.on_goaway(stream);
                    unprocessed.into_iter().for_each(|stream| self.cancel_upload(stream));
                }
                h3::Event::PriorityUpdate => {}
            }
        }
    }

    /// Returns what the head says that has just arrived.
    fn head(&mut self, heads: &mut Heads) -> Option<Head> {
        let h3 = self.h3.as_mut()?;
        let known = heads.find(h3.section());
        known.or_else(|| {
            let fields = h3.decode_section(&mut self.quic).ok()?;
            let head = Head::new(&fields, h3.section().len());
            heads.remember(h3.section(), head);
            Some(head)
        })
    }

    fn on_body(&mut self, stream: u64, exchanges: &mut Exchanges, cx: &mut Context<'_>) {
        let Some(h3) = self.h3.as_mut() else {
            return;
        };
        // An error ends the stream or the connection, and is reported there.
        while let Ok(bytes) = h3.recv_body(&mut self.quic, stream, &mut cx.buffers.body) {
            exchanges.on_body(stream, bytes, cx);
        }
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
            // The stream may have ended.
            let _ = self.quic.stream_shutdown(stream, Shutdown::Write, CANCELLED);
        }
    }

    /// Sends bodies of requests, as far as the server's windows allow.
    pub(super) fn upload(&mut self, exchanges: &mut Exchanges, cx: &Context<'_>) {
        let (Some(h3), Some(body)) = (self.h3.as_mut(), cx.plan.body.as_deref()) else {
            return;
        };
        let (quic, open) = (&mut self.quic, &mut exchanges.open);
        self.uploads.retain(|stream| {
            let Some(request) = open.get_mut(stream) else {
                return false;
            };
            match h3.send_body(quic, *stream, &body[request.sent..], true) {
                Ok(sent) => {
                    request.sent += sent;
                    request.sent < body.len()
                }
                Err(h3::Error::Done) => true,
                // The server stopped it; the response says what it wants.
                Err(_) => false,
            }
        });
    }

    /// Sends the packets that may leave now, in GSO batches.
    ///
    /// # Errors
    /// The server's port is closed or out of reach.
    pub(super) fn send_packets(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.release = None;
        if self.blocked {
            let sent = self.socket.send_again()?;
            if self.is_held(sent, cx) {
                return Ok(());
            }
        }
        let mtu = cx.plan.options.max_udp_payload_size;
        let most = if cx.plan.options.no_udp_gso { 1 } else { self.socket.max_datagrams() };
        // Bytes of the batch, the size of its datagrams and their number.
        let (mut len, mut size, mut count) = (0, 0, 0);
        loop {
            let full = count > 0 && (count == most || len + mtu > BATCH || len % size != 0);
            if full && self.send(&mut len, size, &mut count, cx)? {
                return Ok(());
            }
            if self.is_paced(cx) {
                break;
            }
            let Ok((written, _)) = self.quic.send(&mut cx.buffers.send[len..len + mtu]) else {
                break;
            };
            if count == 0 {
                size = written;
            } else if written > size {
                // It is too long for this batch and begins the next one.
                let start = len;
                if self.send(&mut len, size, &mut count, cx)? {
                    // The packet is lost: the kernel has no room for it either.
                    return Ok(());
                }
                cx.buffers.send.copy_within(start..start + written, 0);
                size = written;
            }
            len += written;
            count += 1;
        }
        self.send(&mut len, size, &mut count, cx).map(drop)
    }

    /// Returns whether pacing forbids a packet now; the release time is kept then.
    fn is_paced(&mut self, cx: &Context<'_>) -> bool {
        let decision = self.quic.get_next_release_time();
        let release = decision.and_then(|decision| decision.time(cx.now));
        // The close of a connection waits for nothing.
        self.release = release.filter(|_| self.quic.local_error().is_none());
        self.release.is_some()
    }

    /// Sends the batch, if there is one, and begins another. Returns whether the kernel has no room.
    fn send(
        &mut self,
        len: &mut usize,
        size: usize,
        count: &mut usize,
        cx: &mut Context<'_>,
    ) -> io::Result<bool> {
        if *count == 0 {
            return Ok(false);
        }
        if cx.counts() {
            cx.tally.datagrams_sent += *count as u64;
        }
        let sent = self.socket.send(&cx.buffers.send[..*len], size)?;
        (*len, *count) = (0, 0);
        Ok(self.is_held(sent, cx))
    }

    /// Returns whether the kernel had no room for a batch; it is sent again later.
    fn is_held(&mut self, sent: Sent, cx: &Context<'_>) -> bool {
        self.blocked = sent == Sent::Blocked;
        if self.blocked {
            self.release = Some(cx.now + SEND_AGAIN);
        }
        if let Sent::TooBig(size) = sent {
            let peer = self.socket.peer;
            self.quic.on_too_big(peer, size);
            cx.note(|| {
                format!("no way to {peer} for datagrams of {size} bytes: smaller ones follow")
            });
        }
        self.blocked
    }
}
