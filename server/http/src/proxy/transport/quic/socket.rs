//! The UDP socket of a connection to an upstream.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use sluicegate_quic_client::{BatchLimits, BatchSocket, Http3Client};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::thread::with_buffers;

/// Silence that ends a connection. PINGs keep one that is in use open, so that an upstream that is gone is noticed within this time
/// if it sends no reset.
pub(super) const IDLE: Duration = Duration::from_secs(15);
/// Largest datagram that is tried, bytes: what Ethernet carries over IPv6.
pub(super) const MAX_DATAGRAM: usize = 1452;
/// Resolution of the runtime's timers. Packets leave ahead of their time by as much, or they would leave late.
const RESOLUTION: Duration = Duration::from_millis(1);
/// Reports in a row that the port is closed, without a datagram between them, after which the upstream is gone. A single one may be
/// forged, or stem from a restart.
const MAX_REFUSALS: u32 = 3;

/// The socket of a connection, with its times.
#[derive(Debug)]
pub(in crate::proxy) struct QuicSocket {
    socket: BatchSocket<UdpSocket>,
    /// Time at which more can be sent.
    release: Option<Instant>,
    /// Time at which something has arrived last, or a PING has left since.
    heard_at: Instant,
    /// Reports in a row that the port is closed.
    refusals: u32,
    has_heard: bool,
}

impl QuicSocket {
    /// Opens a socket to an address.
    ///
    /// # Errors
    /// There is no route to it, or no port or descriptor left.
    pub(super) fn open(peer: SocketAddr) -> io::Result<QuicSocket> {
        let socket = BatchSocket::connect(peer, None)?.with_runtime(UdpSocket::from_std)?;
        Ok(QuicSocket {
            socket,
            release: None,
            heard_at: Instant::now(),
            refusals: 0,
            has_heard: false,
        })
    }

    /// Returns the address of this side.
    pub(super) fn local(&self) -> SocketAddr {
        self.socket.local
    }

    /// Waits until something has arrived.
    pub(in crate::proxy) async fn readable(&self) {
        // An error is found by the next read.
        let _ = self.socket.socket().readable().await;
    }

    /// Passes what has arrived to the client, as much as one system call brings. Returns whether anything has.
    ///
    /// # Errors
    /// The host reports that nothing listens at the upstream's port.
    pub(in crate::proxy) fn receive(
        &mut self,
        client: &mut Http3Client,
        now: Instant,
    ) -> io::Result<bool> {
        let read = with_buffers(|buffers| {
            self.socket.socket().try_io(Interest::READABLE, || {
                let count = self.socket.receive(&mut buffers.receive, |bytes, size, mark| {
                    bytes.chunks_mut(size).for_each(|datagram| client.receive(datagram, mark));
                })?;
                if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            })
        });
        match read {
            Ok(()) => {
                (self.heard_at, self.refusals, self.has_heard) = (now, 0, true);
                Ok(true)
            }
            Err(error) => self.judge(error).map(|()| false),
        }
    }

    /// Sends the packets that may leave now.
    ///
    /// # Errors
    /// As of [`QuicSocket::receive`].
    pub(in crate::proxy) fn flush(
        &mut self,
        client: &mut Http3Client,
        now: Instant,
    ) -> io::Result<()> {
        let socket = &mut self.socket;
        let limits = BatchLimits { size: MAX_DATAGRAM, most: socket.max_datagrams() };
        let ahead = (now + RESOLUTION).into_std();
        let flushed =
            with_buffers(|buffers| socket.flush(client, ahead, &mut buffers.send, limits));
        match flushed {
            Ok(flushed) => {
                let again = flushed.is_blocked.then_some(now + RESOLUTION);
                self.release = again.or(flushed.release.map(Instant::from_std));
                Ok(())
            }
            Err(error) => self.judge(error),
        }
    }

    /// Passes over what is no error of the upstream: what was not sent is lost, and leaves again.
    fn judge(&mut self, error: io::Error) -> io::Result<()> {
        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
            return Ok(());
        }
        self.refusals += 1;
        if self.has_heard && self.refusals < MAX_REFUSALS { Ok(()) } else { Err(error) }
    }

    /// Returns whether a connection in use has been silent for so long that only a PING keeps it open, and puts the next one off.
    pub(in crate::proxy) fn is_silent(&mut self, client: &Http3Client, now: Instant) -> bool {
        let is_silent = now >= self.heard_at + client.ping_after(IDLE);
        if is_silent {
            self.heard_at = now;
        }
        is_silent
    }

    /// Returns the time of the next timer, that of a PING included if the connection is in use.
    pub(in crate::proxy) fn deadline(
        &self,
        client: &Http3Client,
        is_used: bool,
    ) -> Option<Instant> {
        let timer = client.deadline().map(Instant::from_std);
        let ping = is_used.then(|| self.heard_at + client.ping_after(IDLE));
        [timer, self.release, ping].into_iter().flatten().min()
    }
}
