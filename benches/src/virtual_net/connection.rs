//! The bare sender: one connection of quiche with any congestion control, which sends one body as it becomes available.

use std::net::SocketAddr;
use std::time::Instant;

use quiche::h3;
use sluicegate_dataplane::Ecn;
use sluicegate_sim::Source;

use super::sender::{Counts, Sender};
use super::trace::States;
use super::watch::View;
use super::{SimulationError, earliest};

/// Bytes handed to quiche by one call.
const BLOCK: usize = 64 * 1024;

/// No more is handed over while this much waits to be sent, bytes; as in the product, where quiche would take a
/// window at every turn.
const SEND_BUFFER: usize = 1 << 20;

/// Room for a datagram, bytes.
const LARGEST: usize = 1_500;

static BODY: [u8; BLOCK] = [b'.'; BLOCK];

/// A server with one connection. It responds to the request with the same body, whatever its path.
pub(crate) struct BareConnection {
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    /// Stream of the request.
    stream: Option<u64>,
    body: Source,
    /// Time from which the times of the body count.
    start: Instant,
    /// Bytes of the body that quiche has taken.
    taken: u64,
    finished: bool,
    /// Time until which pacing holds packets back.
    release: Option<Instant>,
    states: Option<States>,
}

impl BareConnection {
    pub(crate) fn accept(
        config: &mut quiche::Config,
        peer: SocketAddr,
        local: SocketAddr,
        body: Source,
        start: Instant,
    ) -> Result<Self, SimulationError> {
        let cid = quiche::ConnectionId::from_ref(&[2; 16]);
        let quic = quiche::accept(&cid, None, local, peer, config)?;
        Ok(Self {
            quic,
            http: None,
            stream: None,
            body,
            start,
            taken: 0,
            finished: false,
            release: None,
            states: None,
        })
    }

    /// Reads the states of quiche's own controller from now on.
    pub(super) fn trace(&mut self) {
        self.states = Some(States::of(&mut self.quic));
    }

    /// Takes the request once it has arrived, and hands over as much of the body as is available and quiche takes.
    fn serve(&mut self, now: Instant) -> Result<(), SimulationError> {
        if self.http.is_none() && self.quic.is_established() {
            let config = h3::Config::new()?;
            self.http = Some(h3::Connection::with_transport(&mut self.quic, &config)?);
        }
        let Some(http) = &mut self.http else {
            return Ok(());
        };
        loop {
            match http.poll(&mut self.quic) {
                Ok((stream, h3::Event::Headers { .. })) => {
                    let head = [h3::Header::new(b":status", b"200")];
                    self.finished = self.body.total(1) == Some(0);
                    http.send_response(&mut self.quic, stream, &head, self.finished)?;
                    self.stream = Some(stream);
                }
                Ok(_) => {}
                Err(h3::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let Some(stream) = self.stream else {
            return Ok(());
        };
        let elapsed = now.saturating_duration_since(self.start);
        let (offered, total) = (self.body.offered(elapsed, 1), self.body.total(1));
        while self.taken < offered && !self.finished && self.quic.unsent() < SEND_BUFFER {
            let left = offered - self.taken;
            let size = usize::try_from(left).map_or(BLOCK, |left| left.min(BLOCK));
            let last = total == Some(self.taken + size as u64);
            match http.send_body(&mut self.quic, stream, &BODY[..size], last) {
                Ok(taken) => {
                    self.taken += taken as u64;
                    self.finished = total == Some(self.taken);
                }
                Err(h3::Error::Done | h3::Error::StreamBlocked) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Sender for BareConnection {
    fn receive(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        datagram: &mut [u8],
        _: Ecn,
        _: Instant,
    ) {
        // What it refuses is gone, as in the product.
        let _ = self.quic.recv(datagram, quiche::RecvInfo { from, to });
    }

    /// Sends until quiche has no more, or pacing says wait.
    fn turn(
        &mut self,
        now: Instant,
        mut send: impl FnMut(SocketAddr, Ecn, &[u8]),
    ) -> Result<(), SimulationError> {
        if self.quic.timeout_instant().is_some_and(|at| at <= now) {
            self.quic.on_timeout();
        }
        self.serve(now)?;
        let mut datagram = [0; LARGEST];
        loop {
            let release = self.quic.get_next_release_time();
            self.release = release.and_then(|decision| decision.time(now));
            if self.release.is_some() {
                return Ok(());
            }
            match self.quic.send(&mut datagram) {
                Ok((size, info)) => send(info.to, Ecn::NotCapable, &datagram[..size]),
                Err(quiche::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn next_turn(&mut self, now: Instant) -> Option<Instant> {
        let offer = self.body.next_offer(now.saturating_duration_since(self.start));
        let offer = offer.map(|at| self.start + at);
        earliest([self.release, self.quic.timeout_instant(), offer])
    }

    fn has_established(&self) -> bool {
        self.quic.is_established()
    }

    /// Returns what quiche counts on the path.
    fn counts(&self, view: Option<View>) -> Counts {
        let traced = self.states.as_ref().and_then(States::latest);
        let state = view.map(|view| view.state.name()).or(traced);
        let path = self.quic.path_stats().next();
        path.map_or_else(Counts::default, |path| Counts {
            cwnd: path.cwnd as u64,
            sent: path.sent as u64,
            lost: path.lost as u64,
            srtt: path.min_rtt.map(|_| path.rtt),
            state,
        })
    }
}
