//! Packets of one connection: as many as its window, its pacing and the turn allow.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluicegate_dataplane::{Ecn, Egress, NoRoom, TxMeta};

use super::Connection;
use crate::application::Application;

/// Longest time by which a packet may leave ahead of its release time, so that packets leave in batches. The controllers'
/// send quantum is a millisecond's worth of their rate, too, or less where round trips are short.
pub const PACING_SLACK: Duration = Duration::from_millis(1);

/// Multiple of the worker's delay by which a packet may leave ahead of its release time, so that timers late by up to 125 µs delay at
/// most a ninth of the packets. The pacer makes up for longer delays by bursts.
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

impl<A: Application> Connection<A> {
    /// Writes packets for one path: as many as the window, the pacing rate and the controller's quantum allow. Each packet
    /// is written into room for the largest one.
    pub fn emit(&mut self, out: &mut dyn Egress, now: Instant) -> Emitted {
        if let Some(at) = self.release {
            self.release_delay = faded(self.release_delay, at, now);
        }
        // Both times are over. A connection that gets no room now is woken by its socket, and one that sends nothing more
        // is looked at again by the drain.
        self.release = None;
        self.finishes = None;
        if self.is_held_back(&mut None, now) && !self.quic.is_urgent() {
            return Emitted::Nothing;
        }
        let room = match out.room(self.listener, self.max_datagram) {
            Ok(room) => room,
            Err(reason) => return Emitted::NoRoom(reason),
        };
        if self.quic.is_done() {
            return Emitted::Nothing;
        }
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
        self.emit_burst(out, first, info.from, info.to, now)
    }

    /// Closes it in favour of another connection: CONNECTION_REFUSED in the handshake, `NO_ERROR` after it. Returns the datagram that
    /// says so, if one may leave.
    pub(crate) fn last_datagram(&mut self) -> Option<(TxMeta, Vec<u8>)> {
        if self.is_half_open() {
            self.refuse();
        } else {
            self.close();
        }
        let mut room = vec![0; self.max_datagram];
        let (length, info) = self.quic.send(&mut room).ok()?;
        room.truncate(length);
        Some((meta(&info), room))
    }

    /// Goes on with the path of the first packet, of which `first` bytes left. What was urgent may have passed the pacer;
    /// what follows may not.
    fn emit_burst(
        &mut self,
        out: &mut dyn Egress,
        first: usize,
        from: SocketAddr,
        to: SocketAddr,
        now: Instant,
    ) -> Emitted {
        let quantum = self.quic.send_quantum_on_path(from, to).min(MAX_BURST);
        let mut ahead = None;
        let mut is_done = false;
        let mut sent = first;
        while sent + first <= quantum {
            if self.has_room_again() {
                return Emitted::LowOnData;
            }
            if self.is_held_back(&mut ahead, now) {
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
                Err(error) => {
                    is_done = error == quiche::Error::Done && self.quic.stays_done();
                    break;
                }
            }
        }
        self.after_burst(is_done, now)
    }

    /// Returns what another call of [`Connection::emit`] at the same time would return if that is [`Emitted::Nothing`], with the
    /// same release time kept. `is_done` if it would find nothing to send.
    fn after_burst(&mut self, is_done: bool, now: Instant) -> Emitted {
        self.release = None;
        let is_held_back = self.is_held_back(&mut None, now) && !self.quic.is_urgent();
        if is_held_back || is_done { Emitted::Nothing } else { Emitted::More }
    }

    /// Returns whether pacing forbids a packet now; if so the release time is kept. `ahead` keeps what [`slack`]
    /// returns for the packets of a burst: no ACK comes between them.
    fn is_held_back(&mut self, ahead: &mut Option<Duration>, now: Instant) -> bool {
        // CONNECTION_CLOSE waits for nothing: a process that ends would never send it.
        if self.quic.local_error().is_some() {
            return false;
        }
        let Some(at) = self.quic.get_next_release_time().and_then(|d| d.time(now)) else {
            return false;
        };
        let (quic, delay) = (&self.quic, self.release_delay);
        if at <= now + *ahead.get_or_insert_with(|| slack(quic.burst_time(), delay)) {
            return false;
        }
        self.release = Some(at);
        true
    }
}

/// Returns the longest of the worker's recent delays after release times, with the newest, if it was due `now`.
fn faded(delay: Duration, release: Instant, now: Instant) -> Duration {
    match now.checked_duration_since(release) {
        Some(newest) => newest.min(PACING_SLACK / LATE).max(delay * 7 / 8),
        None => delay,
    }
}

/// Returns the time by which a packet may leave ahead of its release time: that of a burst, and longer where the worker is late,
/// because a busy one has to send large batches.
fn slack(burst: Option<Duration>, delay: Duration) -> Duration {
    burst.map_or(PACING_SLACK, |time| time.max(delay * LATE).min(PACING_SLACK))
}

fn meta(info: &quiche::SendInfo) -> TxMeta {
    TxMeta {
        peer: info.to,
        local: Some(info.from),
        ecn: Ecn::from_bits(info.ecn.bits()),
        departure: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn packets_leave_ahead_by_a_burst_or_more_where_the_worker_is_late() {
        assert_eq!(slack(None, Duration::ZERO), PACING_SLACK);
        assert_eq!(slack(Some(micros(20)), Duration::ZERO), micros(20));
        assert_eq!(slack(Some(micros(20)), micros(50)), micros(400));
        assert_eq!(slack(Some(micros(10_000)), Duration::ZERO), PACING_SLACK);
    }

    #[test]
    fn delay_of_the_worker_fades_with_release_times_that_were_kept() {
        let release = sluicegate_base::clock::now();
        let mut delay = faded(Duration::ZERO, release, release + Duration::from_secs(1));
        assert_eq!(delay, PACING_SLACK / LATE, "more makes no difference");
        assert_eq!(faded(delay, release + micros(1), release), delay, "early");
        for _ in 0..40 {
            delay = faded(delay, release, release);
        }
        assert!(delay < micros(1), "{delay:?}");
    }
}
