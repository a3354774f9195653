//! The client: one GET.

use std::net::SocketAddr;

use quiche::h3;

use super::SimulationError;

const REQUEST: [(&[u8], &[u8]); 4] =
    [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", b"/")];

pub(super) struct Client {
    pub(super) quic: quiche::Connection,
    http: Option<h3::Connection>,
    received: u64,
    finished: bool,
}

impl Client {
    pub(super) fn connect(
        config: &mut quiche::Config,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Result<Self, SimulationError> {
        let cid = quiche::ConnectionId::from_ref(&[1; 16]);
        let quic = quiche::connect(Some("localhost"), &cid, local, peer, config)?;
        Ok(Self { quic, http: None, received: 0, finished: false })
    }

    /// Sends the request once it can, and reads what came; `scratch` is overwritten.
    pub(super) fn on_turn(&mut self, scratch: &mut [u8]) -> Result<(), SimulationError> {
        if self.http.is_none() && self.quic.is_established() {
            let config = h3::Config::new()?;
            let mut http = h3::Connection::with_transport(&mut self.quic, &config)?;
            let head: Vec<_> =
                REQUEST.iter().map(|(name, value)| h3::Header::new(name, value)).collect();
            http.send_request(&mut self.quic, &head, true)?;
            self.http = Some(http);
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
                Ok((_, h3::Event::Finished)) => self.finished = true,
                Ok(_) => {}
                Err(h3::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns whether the whole body came.
    pub(super) const fn finished(&self) -> bool {
        self.finished
    }

    /// Returns the bytes of the body so far.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }
}
