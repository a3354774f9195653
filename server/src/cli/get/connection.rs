//! A client's QUIC connection on a socket of its own.

use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use sluicegate_dataplane::{
    Acquired, Backend, Budget, Dataplane, Driver, DriverOptions, Ecn, Event, ListenerId,
    SocketOptions, Steering, TxMeta, open_group,
};
use sluicegate_quic_client::{self as quic_client, Cause, Http3Client};

/// Datagrams received or sent in one turn.
const BUDGET: Budget = Budget::of_datagrams(1024);

/// Identity of the only listener.
const LISTENER: ListenerId = ListenerId(0);

/// Room for each packet, bytes.
const ROOM: usize = 1472;

/// A connection with its driver; [`ClientConnection::turn`] makes progress.
pub(super) struct ClientConnection {
    driver: Driver,
    /// The connection itself.
    pub(super) http: Http3Client,
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
        connect: impl FnOnce(SocketAddr, SocketAddr) -> anyhow::Result<Http3Client>,
    ) -> anyhow::Result<ClientConnection> {
        let socket = connected_to(peer).with_context(|| format!("no route to {peer}"))?;
        let socket = Acquired::inherit(LISTENER, vec![socket.into()], 1)?;
        let local = socket.local_addr();
        let (options, buffers) = (SocketOptions::default(), DriverOptions::default());
        let group = open_group(Backend::Auto, vec![socket], 1, Steering::Hash, &options, buffers)?;
        let seed = group.seeds.into_iter().next();
        let driver = seed.context("a group without workers")?.open()?.driver;
        let now = clock();
        quic_client::set_time(Some(now));
        Ok(ClientConnection {
            driver,
            http: connect(local, peer)?,
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
        let wake = [self.http.deadline(), release].into_iter().flatten().fold(limit, Instant::min);
        self.driver.wait(Some(wake.saturating_duration_since(self.now)))?;
        self.tick();
        self.receive()?;
        self.http.on_timer(self.now);
        Ok(())
    }

    /// Returns in one line why the connection is closed, if it is.
    pub(super) fn closed(&mut self) -> Option<anyhow::Error> {
        let closed = self.http.closed()?;
        Some(match closed.cause {
            Cause::Untrusted(_) => {
                anyhow!("{closed} (--cacert names its issuer, -k skips the check)")
            }
            _ => anyhow!("{closed}"),
        })
    }

    /// Closes the connection without an error, unless it is closed already, and sends what says so.
    pub(super) fn close(&mut self) {
        self.tick();
        self.http.close();
        let _ = self.send();
    }

    fn tick(&mut self) {
        self.now = (self.clock)();
        quic_client::set_time(Some(self.now));
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        let (http, peer, received) = (&mut self.http, self.peer, &mut self.received);
        self.driver.receive(BUDGET, |meta, datagram| {
            if meta.peer == peer {
                *received = true;
                http.receive(datagram, quic_client::Ecn::from_bits(meta.ecn.bits()));
            }
        })?;
        Ok(())
    }

    /// Sends the datagrams that may leave now, and returns when the pacer allows the next one.
    fn send(&mut self) -> anyhow::Result<Option<Instant>> {
        let (http, peer, now) = (&mut self.http, self.peer, self.now);
        let meta = TxMeta { peer, local: None, ecn: Ecn::NotCapable, departure: None };
        let release = self.driver.transmit(BUDGET, |out| {
            loop {
                let release = http.release(now);
                if release.is_some() {
                    return release;
                }
                let room = out.room(LISTENER, ROOM).ok()?;
                let len = http.next_datagram(room)?;
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
