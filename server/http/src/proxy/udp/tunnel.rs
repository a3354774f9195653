//! Carries the datagrams of a tunnel.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use http_body_util::BodyExt as _;
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};

use super::capsules::{CapsuleReader, capsule};
use super::tunnels::UdpTunnels;
use crate::exchange::handler::{BodySender, RequestBody};
use crate::overhead;

/// Largest datagram that a socket returns, bytes.
pub(super) const LARGEST: usize = 65_535;
/// Bytes of capsules that a client may send without payload: empty datagrams that keep a tunnel open, for instance. It is more than the largest
/// capsule with a datagram, which counts as payload once it is whole.
pub(super) const FREE_OVERHEAD: u64 = 256 << 10;

/// End of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The client has ended its direction.
    Client,
    /// No datagram has passed for too long.
    Idle,
    /// The client has sent something else than capsules, a datagram that is too long, or far more capsules than payload.
    Malformed,
    /// The client has cancelled the request.
    Gone,
}

/// Tunnel between a client and a socket that is connected to its target.
pub(super) struct Tunnel<'a> {
    pub(super) tunnels: &'a UdpTunnels,
    pub(super) socket: &'a UdpSocket,
    /// Longest time without a datagram.
    pub(super) idle_timeout: Duration,
}

impl Tunnel<'_> {
    /// Carries datagrams both ways until the tunnel ends. Those for which the client or the target has no room wait in the system's
    /// buffers, which drop what is too much.
    pub(super) async fn run(&self, client: RequestBody, writer: &mut BodySender) -> End {
        let moved = Cell::new(Instant::now());
        tokio::select! {
            end = self.to_target(client, &moved) => end,
            end = self.to_client(writer, &moved) => end,
            () = self.idle(&moved) => End::Idle,
        }
    }

    async fn to_target(&self, mut client: RequestBody, moved: &Cell<Instant>) -> End {
        let mut capsules = CapsuleReader::default();
        let (mut received, mut carried) = (0_u64, 0_u64);
        while let Some(frame) = client.frame().await {
            let Ok(frame) = frame else {
                return End::Gone;
            };
            let Ok(block) = frame.into_data() else {
                // Trailers have no meaning here.
                continue;
            };
            capsules.push(&block);
            received += block.len() as u64;
            loop {
                let payload = match capsules.next() {
                    Ok(Some(payload)) => payload,
                    Ok(None) => break,
                    Err(_) => return End::Malformed,
                };
                moved.set(Instant::now());
                carried += payload.len() as u64;
                // An error may be about an earlier datagram; UDP promises nothing.
                let sent = self.socket.send(&payload).await.is_ok();
                self.tunnels.count(|counters| {
                    if sent {
                        counters.to_targets += 1;
                    } else {
                        counters.dropped += 1;
                    }
                });
            }
            if received > overhead::allowed(carried, FREE_OVERHEAD) {
                return End::Malformed;
            }
        }
        End::Client
    }

    async fn to_client(&self, writer: &mut BodySender, moved: &Cell<Instant>) -> End {
        loop {
            if self.socket.readable().await.is_err() {
                return End::Gone;
            }
            let received = {
                let scratch = &mut *self.tunnels.scratch.borrow_mut();
                scratch.resize(LARGEST, 0);
                let received = self.socket.try_recv(scratch);
                received.map(|count| capsule(&scratch[..count]))
            };
            match received {
                Ok(block) => {
                    moved.set(Instant::now());
                    if writer.data(block).await.is_err() {
                        return End::Gone;
                    }
                    self.tunnels.count(|counters| counters.to_clients += 1);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The target's host, or a router, has refused a datagram.
                Err(_) => self.tunnels.count(|counters| counters.dropped += 1),
            }
        }
    }

    async fn idle(&self, moved: &Cell<Instant>) {
        loop {
            let deadline = moved.get() + self.idle_timeout;
            if Instant::now() >= deadline {
                return;
            }
            sleep_until(deadline).await;
        }
    }
}
