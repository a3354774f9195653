//! One QUIC connection of a client on a socket of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use sluicegate_dataplane::{
    Backend, Dataplane, Driver, DriverOptions, Ecn, ListenerId, SocketOptions, TxMeta, bind_group,
    open,
};

/// Buffers received or sent in one turn.
const BUDGET: usize = 64;

/// A connection with its driver. Call [`ClientConnection::turn`] until it has what you want.
pub(super) struct ClientConnection {
    driver: Driver,
    /// quiche's half of it.
    pub(super) connection: quiche::Connection,
    /// The server's address.
    pub(super) peer: SocketAddr,
    received: bool,
    clock: fn() -> Instant,
    now: Instant,
}

impl ClientConnection {
    /// Opens a socket that reaches `peer` and starts the handshake with what `connect` makes of the two addresses (own, peer's).
    ///
    /// # Errors
    /// No route to `peer`, or no socket to be had.
    pub(super) fn open(
        peer: SocketAddr,
        clock: fn() -> Instant,
        connect: impl FnOnce(SocketAddr, SocketAddr) -> anyhow::Result<quiche::Connection>,
    ) -> anyhow::Result<ClientConnection> {
        let own = source_for(peer).with_context(|| format!("no route to {peer}"))?;
        let bindings = bind_group(ListenerId(0), own, 1, &SocketOptions::default())?;
        let local = bindings.first().map_or(own, |binding| binding.local_addr());
        let driver = open(Backend::Auto, &DriverOptions::default(), bindings)?.driver;
        let now = clock();
        quiche::clock::set(Some(now));
        Ok(ClientConnection {
            driver,
            connection: connect(local, peer)?,
            peer,
            received: false,
            clock,
            now,
        })
    }

    /// When the current turn began.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Something came from the peer's address.
    pub(super) fn has_received(&self) -> bool {
        self.received
    }

    /// Sends what is due, sleeps until something happens, at most until `limit`, and takes in what came.
    ///
    /// # Errors
    /// The driver broke.
    pub(super) fn turn(&mut self, limit: Instant) -> anyhow::Result<()> {
        let release = self.send()?;
        self.tick();
        let timer = self.connection.timeout().map(|left| self.now + left);
        let wake = [timer, release]
            .into_iter()
            .flatten()
            .fold(limit, Instant::min);
        self.driver
            .wait(Some(wake.saturating_duration_since(self.now)))?;
        self.tick();
        self.receive()?;
        if self.connection.timeout() == Some(Duration::ZERO) {
            self.connection.on_timeout();
        }
        Ok(())
    }

    /// Tells the peer that this was all, if it still listens.
    pub(super) fn close(&mut self) {
        self.tick();
        // It may be closed already, and nobody waits for an answer.
        let code = quiche::h3::WireErrorCode::NoError as u64;
        if self.connection.close(true, code, b"").is_ok() {
            let _ = self.send();
        }
    }

    fn tick(&mut self) {
        self.now = (self.clock)();
        quiche::clock::set(Some(self.now));
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        let (connection, peer, received) = (&mut self.connection, self.peer, &mut self.received);
        self.driver.receive(BUDGET, |meta, buffer| {
            if meta.peer != peer {
                return;
            }
            *received = true;
            for datagram in buffer.chunks_mut(meta.stride.max(1)) {
                let info = quiche::RecvInfo {
                    from: meta.peer,
                    to: meta.local,
                };
                // An error that matters closes the connection and is found there.
                let _ = connection.recv(datagram, info);
            }
        })?;
        Ok(())
    }

    /// Sends what may leave now, and says when the pacer allows the next datagram.
    fn send(&mut self) -> anyhow::Result<Option<Instant>> {
        let (connection, now) = (&mut self.connection, self.now);
        let mut release = None;
        self.driver.transmit(BUDGET, |buffer| {
            let decision = connection.get_next_release_time();
            release = decision.and_then(|decision| decision.time(now));
            if release.is_some() {
                return None;
            }
            // Nothing to send, or closed: the connection knows why.
            let (len, info) = connection.send(buffer).ok()?;
            Some(TxMeta {
                listener: ListenerId(0),
                peer: info.to,
                local: None,
                ecn: Ecn::NotCapable,
                len,
                segment: len,
            })
        })?;
        Ok(release)
    }
}

/// The address that the host would send to `peer` from, with port 0: quiche asks for the real one.
fn source_for(peer: SocketAddr) -> std::io::Result<SocketAddr> {
    let any: SocketAddr = if peer.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0u16; 8], 0).into()
    };
    let probe = std::net::UdpSocket::bind(any)?;
    // Sends nothing; it only asks the routing table.
    probe.connect(peer)?;
    let mut own = probe.local_addr()?;
    own.set_port(0);
    Ok(own)
}
