//! The server: answers one request with a body of a given size.

use std::net::SocketAddr;

use quiche::h3;

use super::SimulationError;

/// What one call hands to the engine, bytes.
const BLOCK: usize = 64 * 1024;

static BODY: [u8; BLOCK] = [b'.'; BLOCK];

pub(super) struct Server {
    pub(super) quic: quiche::Connection,
    http: Option<h3::Connection>,
    /// The stream that is answered.
    stream: Option<u64>,
    /// Bytes of the body that the engine has not taken.
    left: u64,
}

impl Server {
    pub(super) fn accept(
        config: &mut quiche::Config,
        local: SocketAddr,
        peer: SocketAddr,
        body_bytes: u64,
    ) -> Result<Self, SimulationError> {
        let cid = quiche::ConnectionId::from_ref(&[2; 16]);
        let quic = quiche::accept(&cid, None, local, peer, config)?;
        Ok(Self {
            quic,
            http: None,
            stream: None,
            left: body_bytes,
        })
    }

    /// Takes the request once it came, and hands over as much of the body as the engine takes.
    pub(super) fn on_turn(&mut self) -> Result<(), SimulationError> {
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
                    http.send_response(&mut self.quic, stream, &head, self.left == 0)?;
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
        while self.left > 0 {
            let size = usize::try_from(self.left).map_or(BLOCK, |left| left.min(BLOCK));
            let last = size as u64 == self.left;
            match http.send_body(&mut self.quic, stream, &BODY[..size], last) {
                Ok(taken) => self.left -= taken as u64,
                Err(h3::Error::Done | h3::Error::StreamBlocked) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Congestion window, bytes, and packets declared lost.
    pub(super) fn window_and_losses(&self) -> (u64, u64) {
        self.quic
            .path_stats()
            .next()
            .map_or((0, 0), |path| (path.cwnd as u64, path.lost as u64))
    }
}
