//! A client's QUIC connection on a socket of its own.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use sluicegate_dataplane::{
    Acquired, Backend, Budget, Dataplane, Driver, DriverOptions, Ecn, Event, ListenerId,
    SocketOptions, Steering, TxMeta, open_group,
};

/// Datagrams received or sent in one turn.
const BUDGET: Budget = Budget::of_datagrams(1024);

/// Identity of the only listener.
const LISTENER: ListenerId = ListenerId(0);

/// Room for each packet, bytes.
const ROOM: usize = 1472;

/// A connection with its driver; [`ClientConnection::turn`] makes progress.
pub(super) struct ClientConnection {
    driver: Driver,
    /// State of the connection.
    pub(super) connection: quiche::Connection,
    /// Address of the server.
    pub(super) peer: SocketAddr,
    received: bool,
    clock: fn() -> Instant,
    now: Instant,
}

impl ClientConnection {
    /// Opens a socket that reaches `peer` and starts the handshake with what `connect` makes of the two addresses (own, peer's).
    ///
    /// # Errors
    /// There is no route to `peer`, or no socket.
    pub(super) fn open(
        peer: SocketAddr,
        clock: fn() -> Instant,
        connect: impl FnOnce(SocketAddr, SocketAddr) -> anyhow::Result<quiche::Connection>,
    ) -> anyhow::Result<ClientConnection> {
        let socket = connected_to(peer).with_context(|| format!("no route to {peer}"))?;
        let socket = Acquired::inherit(LISTENER, vec![socket.into()], 1)?;
        let local = socket.local_addr();
        let (options, buffers) = (SocketOptions::default(), DriverOptions::default());
        let group = open_group(Backend::Auto, vec![socket], 1, Steering::Hash, &options, buffers)?;
        let seed = group.seeds.into_iter().next();
        let driver = seed.context("a group without workers")?.open()?.driver;
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

    /// Returns the start of the current turn.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Returns whether a datagram has arrived from the peer's address.
    pub(super) fn has_received(&self) -> bool {
        self.received
    }

    /// Returns whether the peer's host has reported that nothing listens there (ICMP), before it sent anything else.
    pub(super) fn is_refused(&mut self) -> bool {
        // A connected socket reports it by the next system call, whether that sends or receives.
        let unreachable = |event| matches!(event, Event::Unreachable { .. });
        let at_send = self.driver.take_event().is_some_and(unreachable);
        !self.received && (at_send || self.driver.counters().rx_errors > 0)
    }

    /// Sends due packets, sleeps until an event or `limit`, and receives.
    ///
    /// # Errors
    /// The driver is broken for good.
    pub(super) fn turn(&mut self, limit: Instant) -> anyhow::Result<()> {
        let release = self.send()?;
        self.tick();
        let timer = self.connection.timeout().map(|left| self.now + left);
        let wake = [timer, release].into_iter().flatten().fold(limit, Instant::min);
        self.driver.wait(Some(wake.saturating_duration_since(self.now)))?;
        self.tick();
        self.receive()?;
        if self.connection.timeout() == Some(Duration::ZERO) {
            self.connection.on_timeout();
        }
        Ok(())
    }

    /// Closes the connection without an error.
    pub(super) fn close(&mut self) {
        self.tick();
        // It may be closed already.
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
        self.driver.receive(BUDGET, |meta, datagram| {
            if meta.peer != peer {
                return;
            }
            *received = true;
            let info = quiche::RecvInfo { from: meta.peer, to: meta.local };
            // An error that matters closes the connection and is found there.
            let ecn = quiche::Ecn::from_bits(meta.ecn.bits());
            let _ = connection.recv_with_ecn(datagram, info, ecn);
        })?;
        Ok(())
    }

    /// Sends the datagrams that may leave now, and returns when the pacer allows the next one.
    fn send(&mut self) -> anyhow::Result<Option<Instant>> {
        let (connection, now) = (&mut self.connection, self.now);
        let release = self.driver.transmit(BUDGET, |out| {
            loop {
                let decision = connection.get_next_release_time();
                let release = decision.and_then(|decision| decision.time(now));
                if release.is_some() {
                    return release;
                }
                let room = out.room(LISTENER, ROOM).ok()?;
                // Nothing to send, or closed: the connection knows why.
                let (len, info) = connection.send(room).ok()?;
                let meta =
                    TxMeta { peer: info.to, local: None, ecn: Ecn::NotCapable, departure: None };
                out.commit(len, &meta);
            }
        })?;
        Ok(release)
    }
}

/// Returns a socket that is connected to `peer`: it has the address from which the host sends there, and reports a closed port.
fn connected_to(peer: SocketAddr) -> std::io::Result<UdpSocket> {
    let any: SocketAddr =
        if peer.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(peer)?;
    Ok(socket)
}
