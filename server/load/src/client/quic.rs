//! A connection of HTTP/3 over QUIC.

pub(super) mod config;
#[cfg(test)]
mod tests;
mod traffic;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use sluicegate_quic_client::{
    BatchSocket, Cause, Ecn, Http3Client, NO_ERROR, ServerName, Step, random_id,
};

use super::exchanges::{Agreed, Exchanges};
use super::sessions::Sessions;
use super::transport::{ConnectOptions, Transport};
use crate::context::Context;
use crate::end::{self, End};
use crate::poller::Watch;
use crate::request::OpenRequest;
use crate::tally::Tally;
use crate::tls;

/// H3_REQUEST_REJECTED (RFC 9114 §8.1).
const REJECTED: u64 = 0x10b;
/// Pause before a batch that found no room in the kernel is sent again.
const SEND_AGAIN: Duration = Duration::from_millis(1);

/// A connection of QUIC with its socket.
pub(crate) struct Quic {
    socket: BatchSocket,
    client: Http3Client,
    sessions: Sessions,
    /// No new session has come yet.
    awaits_session: bool,
    /// Streams whose request has more body to send.
    uploads: VecDeque<u64>,
    /// Time at which pacing allows the next packet, or a batch is sent again.
    release: Option<Instant>,
}

impl Quic {
    /// Opens a socket to the server and starts a handshake.
    ///
    /// # Errors
    /// There is no route or no descriptor left, the trace cannot be written, or the session cannot be decoded.
    pub(crate) fn open(
        (config, sessions): (&mut quiche::Config, &Sessions),
        options: ConnectOptions<'_>,
        cx: &Context<'_>,
    ) -> anyhow::Result<Quic> {
        let socket = BatchSocket::connect(cx.plan.addresses[options.address], options.local)?;
        let name = cx.plan.server_name.as_deref();
        let name = name.map_or(ServerName::Ip(socket.peer.ip()), ServerName::Dns);
        let (local, peer) = (socket.local, socket.peer);
        let mut client = Http3Client::new(config, name, &random_id()?, local, peer)?;
        client.keep_alive(config::IDLE);
        if let Some(path) = options.trace {
            let file = File::create(path);
            let file = file.with_context(|| format!("cannot write {}", path.display()))?;
            let title = "sluicegate load".to_owned();
            client.quic_mut().set_qlog(Box::new(BufWriter::new(file)), title.clone(), title);
        }
        if let Some(session) = sessions.next() {
            let resumed = client.resume(&session, cx.plan.sends_early_data());
            resumed.context("cannot resume the session")?;
        }
        Ok(Quic {
            socket,
            client,
            sessions: sessions.clone(),
            awaits_session: sessions.are_kept(),
            uploads: VecDeque::new(),
            release: None,
        })
    }

    /// Begins HTTP/3, and requests with it, as soon as that is possible.
    fn advance(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) {
        let Some(step) = self.client.advance(cx.now) else {
            return;
        };
        if let Some((http, _)) = self.client.http_mut() {
            http.keep_sections();
        }
        match step {
            Step::EarlyData => exchanges.on_early(cx.now),
            Step::Established { early_data } => {
                let quic = self.client.quic_mut();
                let agreed = Agreed {
                    lines: quic.ssl_mut().map(|ssl| tls::lines(ssl)).unwrap_or_default(),
                    protocol: "h3",
                    is_resumed: quic.is_resumed(),
                    // Responses that have come with the end of the handshake are read later.
                    early_data: early_data.filter(|_| !exchanges.open.is_empty()),
                };
                exchanges.on_established(agreed, cx);
            }
        }
    }

    /// Keeps the session that the server has sent, once.
    fn keep_session(&mut self) {
        if self.awaits_session
            && let Some(session) = self.client.session()
        {
            self.awaits_session = false;
            self.sessions.keep(session);
        }
    }
}

impl Transport for Quic {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn watch(&self) -> Watch {
        Watch::Input
    }

    fn receive(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) -> Result<(), End> {
        let counts = cx.counts();
        let before = self.client.quic().received_stream_bytes();
        let mut any = false;
        let (client, tally, heard) = (&mut self.client, &mut cx.tally, &mut exchanges.heard);
        let result = self.socket.receive(&mut cx.buffers.receive, |bytes, size, _| {
            (*heard, any) = (true, true);
            if counts {
                let datagrams = bytes.len().div_ceil(size) as u64;
                tally.gro.add(datagrams);
                tally.datagrams_received += datagrams;
                tally.bytes_total += bytes.len() as u64;
            }
            for datagram in bytes.chunks_mut(size) {
                client.receive(datagram, Ecn::NotCapable);
            }
        });
        // System call and decryption are part of the latencies of what they bring, as in h2load.
        cx.tick();
        // The response to a PING is not what -N waits for.
        let received = self.client.quic().received_stream_bytes();
        let is_useful = received > before || !self.uploads.is_empty();
        if is_useful || any && !self.client.is_established() {
            exchanges.heard_at = cx.now;
        }
        if any {
            self.client.put_off_ping(cx.now);
        }
        match result {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(end::of_socket(self.socket.peer, &error, exchanges.heard)),
        }
    }

    fn process(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) {
        self.advance(exchanges, cx);
        self.keep_session();
        self.take_events(exchanges, cx);
        self.upload(exchanges, cx);
    }

    fn has_room(&self, _open: usize) -> bool {
        self.client.has_room()
    }

    fn send(&mut self, request: &OpenRequest, cx: &Context<'_>) -> Option<u64> {
        let ends = cx.plan.body.is_none();
        let stream = self.client.request_encoded(&cx.requests[request.head], ends).ok()?;
        if !ends {
            self.uploads.push_back(stream);
        }
        Some(stream)
    }

    fn flush(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) -> Result<(), End> {
        let (peer, heard) = (self.socket.peer, exchanges.heard);
        let sent = self.send_packets(cx);
        sent.map_err(|error| end::of_socket(peer, &error, heard))
    }

    fn is_awake(&self) -> bool {
        // The first packet has left.
        self.client.can_begin_early()
    }

    fn end(&mut self, exchanges: &Exchanges) -> Option<End> {
        let closed = self.client.closed()?;
        let is_orderly =
            matches!(&closed.cause, Cause::ByPeer(e) if e.is_http && e.code == NO_ERROR);
        if is_orderly && exchanges.open.is_empty() && exchanges.first_byte {
            return Some(End::GoneAway);
        }
        Some(end::of_connection(&closed, self.client.quic().is_established()))
    }

    fn deadline(&self) -> Option<Instant> {
        let timers = [self.client.deadline(), self.release];
        timers.into_iter().flatten().min()
    }

    fn on_timer(&mut self, now: Instant) {
        self.client.on_timer(now);
    }

    fn close(&mut self) {
        self.client.close();
    }

    fn missing_handshake(&self, exchanges: &Exchanges) -> String {
        end::of_handshake(self.socket.peer, exchanges.heard)
    }

    fn count(&self, tally: &mut Tally) {
        if let Some(path) = self.client.quic().path_stats().next() {
            if let Some(rtt) = path.min_rtt {
                tally.min_rtt.add_time(rtt);
                tally.smoothed_rtt.add_time(path.rtt);
            }
            tally.packets_sent.add(path.sent as u64);
            tally.packets_received.add(path.recv as u64);
            tally.packets_lost.add(path.lost as u64);
        }
    }
}
