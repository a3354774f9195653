//! Packs the packets of a client into batches for its socket.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use quiche::Ecn;

use crate::client::Http3Client;
use crate::socket::{BATCH, BatchSocket, Sent};

/// Limits of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Largest datagram, bytes.
    pub size: usize,
    /// Most datagrams.
    pub most: usize,
}

/// Result of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Datagrams that were passed to the kernel.
    pub datagrams: u64,
    /// Time before which pacing allows no other packet.
    pub release: Option<Instant>,
    /// The kernel has no room now; the next flush begins with the rest.
    pub is_blocked: bool,
    /// Datagrams of this size are larger than what the way out takes. They are lost, and the client knows.
    pub too_big: Option<usize>,
}

/// Batch that is being written.
struct Batch<'a> {
    room: &'a mut [u8],
    len: usize,
    /// Size of its datagrams, of which the last may be shorter.
    size: usize,
    count: usize,
    mark: Ecn,
    flushed: Flushed,
}

impl Batch<'_> {
    fn is_full(&self, limits: BatchLimits) -> bool {
        self.count > 0
            && (self.count == limits.most
                || self.len + limits.size > BATCH
                || !self.len.is_multiple_of(self.size))
    }

    /// Sends what is in the batch, and begins another. Returns whether the kernel takes more.
    fn send<S: AsFd>(
        &mut self,
        socket: &mut BatchSocket<S>,
        client: &mut Http3Client,
    ) -> io::Result<bool> {
        if self.count == 0 {
            return Ok(true);
        }
        self.flushed.datagrams += self.count as u64;
        let sent = socket.send(&self.room[..self.len], self.size, self.mark)?;
        (self.len, self.count) = (0, 0);
        Ok(self.on_sent(sent, client))
    }

    /// Takes the fate of a batch. Returns whether the kernel takes more.
    fn on_sent(&mut self, sent: Sent, client: &mut Http3Client) -> bool {
        if let Sent::TooBig(size) = sent {
            let peer = client.peer();
            client.quic_mut().on_too_big(peer, size);
            self.flushed.too_big = Some(size);
        }
        self.flushed.is_blocked = sent == Sent::Blocked;
        !self.flushed.is_blocked
    }
}

impl<S: AsFd> BatchSocket<S> {
    /// Sends the packets of a client that may leave now. `room` has [`BATCH`] bytes.
    ///
    /// # Errors
    /// The server's port is closed or out of reach, as the host reports.
    pub fn flush(
        &mut self,
        client: &mut Http3Client,
        now: Instant,
        room: &mut [u8],
        limits: BatchLimits,
    ) -> io::Result<Flushed> {
        let flushed = Flushed::default();
        let mark = Ecn::NotCapable;
        let mut batch = Batch { room, len: 0, size: 0, count: 0, mark, flushed };
        let sent = self.send_again()?;
        if !batch.on_sent(sent, client) {
            return Ok(batch.flushed);
        }
        loop {
            if batch.is_full(limits) && !batch.send(self, client)? {
                return Ok(batch.flushed);
            }
            batch.flushed.release = client.release(now);
            if batch.flushed.release.is_some() {
                break;
            }
            let start = batch.len;
            let space = &mut batch.room[start..start + limits.size];
            let Some((written, mark)) = client.next_packet(space) else {
                break;
            };
            if batch.count > 0 && (written > batch.size || mark != batch.mark) {
                // It fits into no batch with the others, and begins the next one.
                if !batch.send(self, client)? {
                    // The packet is lost: the kernel has no room for it either.
                    return Ok(batch.flushed);
                }
                batch.room.copy_within(start..start + written, 0);
            }
            if batch.count == 0 {
                (batch.size, batch.mark) = (written, mark);
            }
            batch.len += written;
            batch.count += 1;
        }
        batch.send(self, client)?;
        Ok(batch.flushed)
    }
}
