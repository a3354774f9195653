//! The server: sends one response, with a body that is complete at once or grows with time.

use std::net::SocketAddr;
use std::time::Duration;

use quiche::h3;
use sluicegate_sim::Source;

use super::SimulationError;

/// Bytes handed to quiche by one call.
const BLOCK: usize = 64 * 1024;

/// No more is handed over while this much waits to be sent, bytes; as in the product, where quiche would take a
/// window at every turn.
const SEND_BUFFER: usize = 1 << 20;

static BODY: [u8; BLOCK] = [b'.'; BLOCK];

pub(crate) struct Server {
    pub(crate) quic: quiche::Connection,
    http: Option<h3::Connection>,
    /// Stream of the request.
    stream: Option<u64>,
    body: Source,
    /// Bytes of the body that quiche has taken.
    taken: u64,
    finished: bool,
}

impl Server {
    pub(crate) fn accept(
        config: &mut quiche::Config,
        local: SocketAddr,
        peer: SocketAddr,
        body: Source,
    ) -> Result<Self, SimulationError> {
        let cid = quiche::ConnectionId::from_ref(&[2; 16]);
        let quic = quiche::accept(&cid, None, local, peer, config)?;
        Ok(Self { quic, http: None, stream: None, body, taken: 0, finished: false })
    }

    /// Takes the request once it came, and hands over as much of the body as there is `elapsed` after the start and
    /// quiche takes.
    pub(crate) fn on_turn(&mut self, elapsed: Duration) -> Result<(), SimulationError> {
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

    /// Returns when more of the body is available after `elapsed`.
    pub(crate) fn next_offer(&self, elapsed: Duration) -> Option<Duration> {
        self.body.next_offer(elapsed)
    }

    /// Returns what quiche counts on the path.
    pub(crate) fn counts(&self) -> Counts {
        let path = self.quic.path_stats().next();
        path.map_or_else(Counts::default, |path| Counts {
            cwnd: path.cwnd as u64,
            sent: path.sent as u64,
            lost: path.lost as u64,
            srtt: path.min_rtt.map(|_| path.rtt),
        })
    }
}

/// Counters of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Congestion window, bytes.
    pub(crate) cwnd: u64,
    /// Packets that left.
    pub(crate) sent: u64,
    /// Packets declared lost.
    pub(crate) lost: u64,
    /// Smoothed round-trip time; `None` before the first sample.
    pub(crate) srtt: Option<Duration>,
}
