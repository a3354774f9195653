//! A client that loads pages: all bodies of one are asked for at once, the next page follows when they are there.
//!
//! It acknowledges every second packet, or after the acknowledgement delay, as RFC 9000 §13.2.2 recommends and browsers do;
//! quiche alone would acknowledge each.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quiche::h3;

use super::EndpointError;
use crate::virtual_net::earliest;

/// Flow control that never limits, bytes.
const WINDOW: u64 = 1 << 30;

/// Largest datagram that the client takes, bytes.
const MAX_DATAGRAM: usize = 65_527;

/// Longest time for which an acknowledgement is held back: max_ack_delay's default.
const ACK_DELAY: Duration = Duration::from_millis(25);

/// Packets that are acknowledged together.
const ACK_EVERY: u32 = 2;

pub(super) struct Client {
    pub(super) quic: quiche::Connection,
    http: Option<h3::Connection>,
    page: Vec<u64>,
    /// Pages that are still to be asked for.
    pages: usize,
    /// Responses of this page that are not finished.
    open: usize,
    received: u64,
    /// Packets that arrived since the last time it sent.
    unanswered: u32,
    /// Time at which it sends at the latest.
    send_at: Option<Instant>,
}

impl Client {
    /// Returns a client that sends its requests once connected.
    pub(super) fn connect(
        local: SocketAddr,
        peer: SocketAddr,
        page: &[u64],
        pages: usize,
    ) -> Result<Self, EndpointError> {
        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
        config.verify_peer(false);
        config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
        config.set_max_recv_udp_payload_size(MAX_DATAGRAM);
        config.set_initial_max_data(WINDOW);
        config.set_initial_max_stream_data_bidi_local(WINDOW);
        config.set_initial_max_stream_data_uni(WINDOW);
        config.set_initial_max_streams_uni(3);
        let cid = quiche::ConnectionId::from_ref(&[1; 16]);
        let quic = quiche::connect(Some("localhost"), &cid, local, peer, &mut config)?;
        Ok(Self {
            quic,
            http: None,
            page: page.to_vec(),
            pages,
            open: 0,
            received: 0,
            unanswered: 0,
            send_at: None,
        })
    }

    /// Takes a datagram; one that quiche refuses is gone.
    pub(super) fn receive(&mut self, datagram: &mut [u8], info: quiche::RecvInfo, now: Instant) {
        let _ = self.quic.recv(datagram, info);
        self.unanswered += 1;
        self.send_at.get_or_insert(now + ACK_DELAY);
    }

    /// Returns whether it sends now what it has to send.
    pub(super) fn may_send(&mut self, now: Instant) -> bool {
        let due = self.send_at.is_some_and(|at| at <= now);
        let may = due
            || self.unanswered == 0
            || self.unanswered >= ACK_EVERY
            || !self.quic.is_established();
        if may {
            self.unanswered = 0;
            self.send_at = None;
        }
        may
    }

    /// Returns when it wants to send or has a timer.
    pub(super) fn next_event(&self) -> Option<Instant> {
        earliest([self.quic.timeout_instant(), self.send_at])
    }

    /// Sends requests once it can, and reads what arrived; `scratch` is overwritten.
    pub(super) fn on_turn(&mut self, scratch: &mut [u8]) -> Result<(), EndpointError> {
        if self.http.is_none() && self.quic.is_established() {
            let config = h3::Config::new()?;
            self.http = Some(h3::Connection::with_transport(&mut self.quic, &config)?);
        }
        let Some(http) = &mut self.http else {
            return Ok(());
        };
        loop {
            match http.poll(&mut self.quic) {
                Ok((stream, h3::Event::Data)) => {
                    while let Ok(n) = http.recv_body(&mut self.quic, stream, scratch) {
                        self.received += n as u64;
                    }
                }
                Ok((_, h3::Event::Finished)) => self.open -= 1,
                Ok(_) => {}
                Err(h3::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if self.open == 0 && self.pages > 0 {
            self.pages -= 1;
            for size in &self.page {
                http.send_request(&mut self.quic, &request(*size), true)?;
                self.open += 1;
            }
            self.unanswered = 0;
        }
        Ok(())
    }

    /// Returns whether every page arrived.
    pub(super) fn finished(&self) -> bool {
        self.http.is_some() && self.pages == 0 && self.open == 0
    }

    /// Returns the bytes of bodies so far.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }
}

fn request(size: u64) -> [h3::Header; 4] {
    let path = format!("/bytes/{size}");
    let head = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", &path),
    ];
    head.map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
}
