//! Bytes of a connection: responses in, bodies and packets out.

use std::io;

use quiche::{Shutdown, h3};

use super::{CANCELLED, Client, INTERNAL_ERROR, REJECTED, SEND_AGAIN};
use crate::context::Context;
use crate::heads::{Head, Heads};
use crate::request::Request;
use crate::socket::{BATCH, Sent};

impl Client {
    /// Processes what HTTP/3 reports.
    pub(super) fn take_events(&mut self, cx: &mut Context<'_>) {
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
                h3::Event::Headers { .. } => self.on_head(stream, cx),
                h3::Event::Data => self.on_body(stream, cx),
                h3::Event::Finished => {
                    let whole = !h3.finished_within_frame();
                    self.on_end(stream, whole, cx);
                }
                h3::Event::Reset(REJECTED) if self.has_no_head(stream) => self.on_rejected(stream),
                h3::Event::Reset(_) => self.on_end(stream, false, cx),
                h3::Event::GoAway => self.on_goaway(stream),
                h3::Event::PriorityUpdate => {}
            }
        }
    }

    fn on_head(&mut self, stream: u64, cx: &mut Context<'_>) {
        // The connection is closed if the head cannot be decoded.
        let Some(head) = self.head(&mut cx.heads) else {
            return;
        };
        if !std::mem::replace(&mut self.first_byte, true) {
            cx.tally.first_byte.add_time(cx.now - self.begin);
        }
        let Some(request) = self.open.get_mut(&stream) else {
            return;
        };
        let status = request.on_head(&head);
        if !cx.counts_request(request.start) {
            return;
        }
        cx.count_head(&head);
        if let Some(status) = status
            && let Some(count) = cx.tally.status.get_mut(usize::from(status / 100))
        {
            *count += 1;
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

    fn on_body(&mut self, stream: u64, cx: &mut Context<'_>) {
        let (Some(h3), Some(request)) = (self.h3.as_mut(), self.open.get_mut(&stream)) else {
            return;
        };
        let counts = cx.counts_request(request.start);
        // An error ends the stream or the connection, and is reported there.
        while let Ok(bytes) = h3.recv_body(&mut self.quic, stream, &mut cx.buffers.body) {
            request.on_body(bytes);
            if counts {
                cx.tally.bytes_body += bytes as u64;
            }
        }
    }

    fn has_no_head(&self, stream: u64) -> bool {
        let request = self.open.get(&stream);
        request.is_some_and(|request| request.status.is_none())
    }

    /// Takes GOAWAY: the server processes no request on `first` or a later stream (RFC 9114 §5.2).
    fn on_goaway(&mut self, first: u64) {
        self.going_away = true;
        for (stream, request) in self.open.split_off(&first) {
            self.take_back(stream, &request);
        }
    }

    /// Takes the rejection of a request, which the server did not process (RFC 9114 §4.1.1). Another connection sends it, since this
    /// one may reject it again.
    fn on_rejected(&mut self, stream: u64) {
        self.going_away = true;
        if let Some(request) = self.open.remove(&stream) {
            self.take_back(stream, &request);
        }
    }

    fn take_back(&mut self, stream: u64, request: &Request) {
        self.cancel_upload(stream);
        self.work.again.push_back(request.unsent());
    }

    /// Sends no more of a request's body.
    fn cancel_upload(&mut self, stream: u64) {
        if let Some(at) = self.uploads.iter().position(|upload| *upload == stream) {
            self.uploads.remove(at);
            // The stream may have ended.
            let _ = self
                .quic
                .stream_shutdown(stream, Shutdown::Write, CANCELLED);
        }
    }

    /// Ends a request; `whole` if its stream ended where a message may end.
    fn on_end(&mut self, stream: u64, whole: bool, cx: &mut Context<'_>) {
        let Some(request) = self.open.remove(&stream) else {
            return;
        };
        cx.open_requests -= 1;
        // A server that has responded to half a request reads no more of it.
        self.cancel_upload(stream);
        let status = request.complete(cx.plan.without_bodies).filter(|_| whole);
        if !cx.counts_request(request.start) {
            return;
        }
        match status {
            Some(status) => {
                self.completed += 1;
                cx.tally.completed += 1;
                let good = status < 400;
                cx.tally.succeeded += u64::from(good);
                cx.tally.failed += u64::from(!good);
                cx.count_time(request.start);
            }
            None => cx.tally.abandon(1),
        }
        if let Some(log) = &mut cx.log {
            log.write(request.start, status, cx.now);
        }
        cx.count_done();
    }

    /// Sends bodies of requests, as far as the server's windows allow.
    pub(super) fn upload(&mut self, cx: &mut Context<'_>) {
        let (Some(h3), Some(body)) = (self.h3.as_mut(), cx.plan.body.as_deref()) else {
            return;
        };
        let (quic, open) = (&mut self.quic, &mut self.open);
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
    pub(super) fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.release = None;
        if self.blocked {
            let sent = self.socket.send_again()?;
            if self.is_held(sent, cx) {
                return Ok(());
            }
        }
        let mtu = cx.plan.options.max_udp_payload_size;
        let most = if cx.plan.options.no_udp_gso {
            1
        } else {
            self.socket.max_datagrams()
        };
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
