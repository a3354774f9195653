//! Packets of one connection: as many as its window, its pacing and the turn allow.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluicegate_dataplane::{Ecn, Egress, NoRoom, TxMeta};

use super::Connection;

/// Longest time by which a packet may leave ahead of its release time, so that packets leave in batches. The controllers'
/// send quantum is a millisecond's worth of their rate, too, or less where round trips are short.
pub const PACING_SLACK: Duration = Duration::from_millis(1);

/// Delays of the worker by which a packet may leave ahead of its release time: with eight, the rate is at least 89 % of what it
/// should be.
const LATE: u32 = 8;

/// Bytes that a connection may write before it is another's turn.
const MAX_BURST: usize = 64 << 10;

/// Event that ended [`Connection::emit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emitted {
    /// The quantum, or another connection's turn: there may be more to send.
    More,
    /// The send buffer ran low while responses wait for room in it: [`Connection::service`] comes first.
    LowOnData,
    /// There is nothing to send before the deadline that [`Connection::deadline`] names.
    Nothing,
    /// There is no room for the next packet.
    NoRoom(NoRoom),
}

impl Connection {
    /// Writes packets for one path: as many as the window, the pacing rate and the controller's quantum allow. Each packet
    /// is written into room for the largest one.
    pub fn emit(&mut self, out: &mut dyn Egress, now: Instant) -> Emitted {
        // Both times are over. A connection that gets no room now is woken by its socket, and one that sends nothing more
        // is looked at again by the drain.
        self.note_delay(now);
        self.release = None;
        self.finishes = None;
        if self.is_held_back(now) && !self.quic.is_urgent() {
            return Emitted::Nothing;
        }
        let room = match out.room(self.listener, self.max_datagram) {
            Ok(room) => room,
            Err(reason) => return Emitted::NoRoom(reason),
        };
        let sent = self.quic.send(room).or_else(|error| match error {
            quiche::Error::Done => Err(error),
            _ => {
                tracing::debug!(%error, "connection failed while sending");
                let code = quiche::WireErrorCode::InternalError as u64;
                let _ = self.quic.close(false, code, b"");
                self.quic.send(room)
            }
        });
        let Ok((first, info)) = sent else {
            return Emitted::Nothing;
        };
        out.commit(first, &meta(&info));
        self.emit_burst(out, first, (info.from, info.to), now)
    }

    /// Goes on with the path of the first packet, of which `first` bytes left. What was urgent may have passed the pacer;
    /// what follows may not.
    fn emit_burst(
        &mut self,
        out: &mut dyn Egress,
        first: usize,
        (from, to): (SocketAddr, SocketAddr),
        now: Instant,
    ) -> Emitted {
        let quantum = self.quic.send_quantum_on_path(from, to).min(MAX_BURST);
        let mut sent = first;
        while sent + first <= quantum {
            if self.has_room_again() {
                return Emitted::LowOnData;
            }
            if self.is_held_back(now) {
                break;
            }
            let room = match out.room(self.listener, self.max_datagram) {
                Ok(room) => room,
                Err(reason) => return Emitted::NoRoom(reason),
            };
            match self.quic.send_on_path(room, Some(from), Some(to)) {
                Ok((len, info)) => {
                    out.commit(len, &meta(&info));
                    sent += len;
                }
                Err(_) => break,
            }
        }
        Emitted::More
    }

    /// Returns whether pacing forbids a packet now; if so the release time is kept.
    fn is_held_back(&mut self, now: Instant) -> bool {
        // CONNECTION_CLOSE waits for nothing: a process that ends would never send it.
        if self.quic.local_error().is_some() {
            return false;
        }
        let Some(at) = self.quic.get_next_release_time().and_then(|d| d.time(now)) else {
            return false;
        };
        let slack = self.slack();
        if at <= now + slack {
            return false;
        }
        self.release = Some(at);
        true
    }

    /// Notes how late the worker comes to packets whose release time has passed. The longest delay counts, and fades.
    fn note_delay(&mut self, now: Instant) {
        if let Some(at) = self.release {
            let delay = now.saturating_duration_since(at);
            self.release_delay = delay.max(self.release_delay * 7 / 8);
        }
    }

    /// Returns the time by which a packet may leave ahead of its release time: that of a burst, and longer where the worker is
    /// late by more. The pacer does not make up for that, and a busy worker has to send large batches.
    fn slack(&self) -> Duration {
        let burst = self.quic.burst_time();
        let slack = burst.map_or(PACING_SLACK, |time| time.max(self.release_delay * LATE));
        slack.min(PACING_SLACK)
    }
}

fn meta(info: &quiche::SendInfo) -> TxMeta {
    TxMeta {
        peer: info.to,
        local: Some(info.from),
        ecn: Ecn::from_bits(info.ecn.bits()),
        departure: None,
    }
}
