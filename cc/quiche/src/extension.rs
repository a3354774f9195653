//! Methods of a connection that its server needs beyond upstream's.
//!
//! The build script places this file at `extension.rs` of the patched source.

mod figures;
mod held;
mod limits;
mod switch;
#[cfg(feature = "qlog")]
mod traces;

pub use figures::Figures;
pub use limits::SendLimit;

use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use smallvec::SmallVec;

use crate::frame::Frame;
use crate::packet::Epoch;
use crate::path::Path;
use crate::recovery::RecoveryOps;
use crate::stream::CryptoStream;
use crate::stream::Stream;
use crate::BufFactory;
use crate::Connection;
use crate::Error;
use crate::Result;

/// Longest token of a NEW_TOKEN frame, in bytes: the smallest packet has room for it beside other frames.
const MAX_NEW_TOKEN: usize = 512;

impl<F: BufFactory> Connection<F> {
    /// Returns whether something was sent and not acknowledged yet, or a stream has data to send. Probes do not count:
    /// another path than the active one may never answer, nor a path that is too narrow for an MTU probe. What is in flight on
    /// a path that the peer left is acknowledged or sent again soon.
    pub fn has_unacked(&self) -> bool {
        self.streams.has_flushable() ||
            self.paths.iter().any(|(_, path)| {
                let probe = path.pmtud.as_ref().map_or(0, |pmtud| pmtud.bytes_in_flight());
                // Lost data is not in flight, and back in its stream only when the next packet is written.
                let may_be_answered = path.active() || path.recovery.has_left_behind();
                (may_be_answered && path.recovery.bytes_in_flight() > probe) ||
                    Epoch::epochs(Epoch::Initial..=Epoch::Application)
                        .iter()
                        .any(|&epoch| path.recovery.has_lost_frames(epoch))
            })
    }

    /// Returns how many bytes of all streams wait to be sent, for the first time or again. Bytes that wait for an
    /// acknowledgement do not count; the congestion window bounds them.
    pub fn unsent(&self) -> usize {
        self.streams.tx_buffered()
    }

    /// Frees what a connection without work keeps for later: room of emptied buffers, and of lists of packets and frames. On a
    /// server also what it needs no more: the state of TLS.
    pub fn release_memory(&mut self) {
        self.streams.release();
        // The packet that ended them was counted in them once more.
        self.end_handshake_spaces();
        self.release_tls();
        self.crypto_ctx[Epoch::Application].crypto_stream.release();
        for (_, path) in self.paths.iter_mut() {
            path.recovery.release();
        }
        self.paths.release();
        self.undecryptable_pkts.shrink_to_fit();
    }

    /// Frees the key of early data, the state of TLS and the stream of its messages, once the client has all of them: it has nothing
    /// to say to TLS after the handshake. What was negotiated can still be asked for. With a client's certificate the state stays.
    fn release_tls(&mut self) {
        let crypto = &mut self.crypto_ctx[Epoch::Application];
        if !self.is_server || !self.handshake_done_acked {
            return;
        }
        // RFC 9001 Section 4.9.3.
        crypto.crypto_0rtt_open = None;
        if crypto.crypto_stream.is_done() && self.handshake.release() {
            crypto.crypto_stream = CryptoStream::new();
        }
    }

    /// Returns the time in which the active path's pacing rate sends one send quantum, or half of its shortest round trip if
    /// that is longer; `None` before there is a round trip, or if the rate is zero.
    pub fn burst_time(&self) -> Option<Duration> {
        let recovery = &self.paths.get_active().ok()?.recovery;
        let half = recovery.min_rtt()? / 2;
        let nanos = (recovery.send_quantum() as u64).saturating_mul(1_000_000_000);
        let quantum = nanos.checked_div(recovery.pacing_rate())?;
        Some(half.max(Duration::from_nanos(quantum)))
    }

    /// Returns how many streams' sending the peer has stopped so far. `stats()` returns the same count and sums over all
    /// streams for the rest.
    pub fn streams_stopped_by_peer(&self) -> u64 {
        self.stopped_stream_remote_count
    }

    /// Returns how many streams have begun so far, by either side.
    pub fn streams_begun(&self) -> u64 {
        self.streams.begun()
    }

    /// Returns how many more bytes the peer's flow control allows on a stream, by the limits of the stream and of the
    /// connection. `None` if the stream is gone, or has bytes that were allowed and not sent.
    pub fn peer_allowance(&self, stream: u64) -> Option<u64> {
        let stream = self.streams.get(stream)?;
        if stream.is_flushable() {
            return None;
        }
        let allowed = u64::try_from(stream.send.cap().ok()?).ok()?;
        Some(allowed.min(self.connection_allowance()))
    }

    /// Returns how many more bytes of streams the peer's flow control of the connection allows.
    pub fn connection_allowance(&self) -> u64 {
        self.max_tx_data.saturating_sub(self.tx_data)
    }

    /// Returns whether the receive window of the connection, and nothing of the stream's own, keeps the peer from sending more
    /// of a stream: less than a packet is left, and the application must read before it is raised. What is missing before
    /// bytes that arrived may be sent all the same.
    pub fn is_window_shut(&self, stream: u64) -> bool {
        let limit = if self.flow_control.should_update_max_data() {
            self.flow_control.max_data_next()
        } else {
            self.flow_control.max_data()
        };
        let whole = |stream: &Stream<F>| stream.recv.off_front() == stream.recv.max_off();
        limit.saturating_sub(self.rx_data) < crate::MIN_CLIENT_INITIAL_LEN as u64 &&
            self.streams.get(stream).is_none_or(whole)
    }

    /// Returns how many bytes of packets the peer has acknowledged, as `stats()` does.
    pub fn acknowledged_bytes(&self) -> u64 {
        self.acked_bytes
    }

    /// Returns how many packets were received and decrypted, repeated ones not included.
    pub fn received_packets(&self) -> usize {
        self.recv_count
    }

    /// Returns how many bytes of streams the peer has used of the connection's window so far: up to the largest offset of each.
    pub fn received_bytes(&self) -> u64 {
        self.rx_data
    }

    /// Returns how many bytes of streams the received packets contained, repeated ones included.
    pub fn received_stream_bytes(&self) -> u64 {
        self.stream_recv_bytes
    }

    /// Lets a stream take `len` bytes at once, whatever the window has room for: a header section is written whole or not at all, and
    /// beside a stream that takes all of the window as it opens, the window never has room for a longer one. If nothing waits to be
    /// sent, a window that is too small does not even grow. Flow control holds all the same.
    pub(crate) fn make_head_room(&mut self, len: usize) {
        let allowed = self.connection_allowance();
        let room = usize::try_from(allowed).map_or(len, |allowed| allowed.min(len));
        self.tx_cap = self.tx_cap.max(room);
    }

    /// Returns whether data, or the end alone, was written to a stream.
    pub fn has_written(&self, stream: u64) -> bool {
        self.streams.get(stream).is_some_and(|stream| stream.send.off_back() > 0 || stream.send.is_fin())
    }

    /// Returns whether something waits that pacing must not hold back: an acknowledgement (RFC 9002 §7.7), a challenge or response
    /// of a path, a probe after a timeout.
    pub fn is_urgent(&self) -> bool {
        // A space whose keys are gone still says that an acknowledgement was asked for.
        Epoch::epochs(self.crypto_ctx.first()..=Epoch::Application)
            .iter()
            .filter(|&&epoch| self.crypto_ctx[epoch].crypto_seal.is_some())
            .any(|&epoch| {
                self.pkt_num_spaces[epoch].ack_elicited ||
                    self.paths.iter().any(|(_, path)| path.recovery.loss_probes(epoch) > 0)
            }) ||
            self.paths
                .iter()
                .any(|(_, path)| path.probing_required() && path.active_dcid_seq.is_some() && path.can_probe(self.is_server))
    }

    /// Returns the state of the active path's congestion controller, in its own word.
    #[cfg(feature = "qlog")]
    pub fn congestion_state(&self) -> Option<&'static str> {
        let path = self.paths.get_active().ok()?;
        Some(path.recovery.state_str(crate::clock::now()))
    }

    /// Returns whether another attempt to send finds nothing either, after one that returned [`Error::Done`] at the same time on the
    /// path that packets leave by. `false` where it may find something: on another path, in another packet number space, or a
    /// DATAGRAM frame after a STREAM frame.
    pub fn stays_done(&self) -> bool {
        self.sends_application_data_only() && self.dgram_send_queue.is_empty()
    }

    /// Returns whether an attempt to send would find nothing, where that can be told without one, and notes what the attempt would.
    /// `false` where an attempt has to find out.
    pub fn is_done(&mut self) -> bool {
        let is_unclear = self.streams.has_flushable() ||
            !self.sends_application_data_only() ||
            self.crypto_ctx[Epoch::Application].crypto_0rtt_open.is_some() ||
            self.is_closed() ||
            self.is_draining();
        let Some(path) = self.paths.get_active_path_id().ok().filter(|_| !is_unclear) else {
            return false;
        };
        if !matches!(self.write_pkt_type(path), Err(Error::Done)) {
            return false;
        }
        self.last_tx_data = self.tx_data;
        if let Ok(path) = self.paths.get_mut(path) {
            path.recovery.begin_datagram();
        }
        self.note_nothing_sent(path, 1);
        true
    }

    /// Returns whether packets can only be of 1-RTT, on the one path there is, and only the window limits them.
    fn sends_application_data_only(&self) -> bool {
        let early = [Epoch::Initial, Epoch::Handshake];
        let mut paths = self.paths.iter();
        let (Some((_, path)), None) = (paths.next(), paths.next()) else {
            return false;
        };
        self.handshake_completed &&
            self.local_error.is_none() &&
            self.recovery_config.cc_factory.is_some() &&
            early.iter().all(|&epoch| self.crypto_ctx[epoch].crypto_seal.is_none()) &&
            path.active() &&
            path.verified_peer_address &&
            !path.probing_required()
    }

    /// Takes an attempt to send on a path, with `room` bytes of the datagram open to it, that wrote nothing.
    ///
    /// quiche reports to its controllers that data ran out only where it sends a packet without any. Controllers from
    /// outside get the report at every attempt that the window would have allowed.
    pub(crate) fn note_nothing_sent(&mut self, path: usize, room: usize) {
        if self.recovery_config.cc_factory.is_none() || room == 0 || self.streams.has_flushable() {
            return;
        }
        if let Ok(path) = self.paths.get_mut(path) {
            if path.recovery.cwnd_available() > 0 {
                path.recovery.on_app_limited();
            }
        }
    }

    /// Sends the peer a token for a later connection in a NEW_TOKEN frame (RFC 9000 §19.7) when the handshake is complete, and
    /// again if its packet is declared lost. It replaces a token that was not sent yet.
    ///
    /// # Errors
    /// [`Error::InvalidState`] of a client, which sends no tokens, and [`Error::InvalidFrame`] for a token that is empty or too
    /// long for every packet.
    pub fn send_new_token(&mut self, token: &[u8]) -> Result<()> {
        if !self.is_server {
            return Err(Error::InvalidState);
        }
        if token.is_empty() || token.len() > MAX_NEW_TOKEN {
            return Err(Error::InvalidFrame);
        }
        self.new_token = Some(token.to_vec());
        Ok(())
    }

    /// Returns the addresses of the active path, this side's first, if the peer's is validated (RFC 9000 §8). Its MTU may not be.
    pub fn validated_path(&self) -> Option<(SocketAddr, SocketAddr)> {
        let path = self.paths.get_active().ok()?;
        path.verified_peer_address.then(|| (path.local_addr(), path.peer_addr()))
    }

    /// Returns whether the peer may have used more than one path.
    pub fn has_other_paths(&self) -> bool {
        self.paths.len() > 1
    }

    /// Has the paths that the connection has left validated again if the peer returns to one, but not the path to which the
    /// connection reverts if the active one fails its validation (RFC 9000 §9.3.2).
    ///
    /// A server may skip the validation of an address that was seen recently (§9.3). The caller knows how long ago that was.
    pub fn forget_left_paths(&mut self) {
        let is_validated = self.paths.get_active().is_ok_and(Path::validated);
        let kept = if is_validated { None } else { self.paths.way_back() };
        for (id, path) in self.paths.iter_mut() {
            if !path.active() && Some(id) != kept {
                path.forget_validation();
            }
        }
    }

    /// Returns the peer's address on the active path.
    pub fn active_peer(&self) -> Option<SocketAddr> {
        self.paths.get_active().ok().map(Path::peer_addr)
    }

    /// Returns whether the active path's datagrams are larger than those that every path carries.
    pub fn is_pmtu_raised(&self) -> bool {
        let pmtud = self.paths.get_active().ok().and_then(|path| path.pmtud.as_ref());
        pmtud.is_some_and(|pmtud| pmtud.get_current_mtu() > crate::MIN_CLIENT_INITIAL_LEN)
    }

    /// Sends datagrams that every path carries until a probe shows again that the active path carries larger ones. A
    /// probe of the size that was found goes first; a search under way starts over.
    pub fn doubt_pmtu(&mut self) {
        let Ok(path) = self.paths.get_active_mut() else {
            return;
        };
        if let Some(pmtud) = path.pmtud.as_mut() {
            if pmtud.get_pmtu().is_some() {
                pmtud.revalidate_pmtu();
            } else {
                *pmtud = pmtud.restarted();
            }
            path.recovery.pmtud_update_max_datagram_size(pmtud.get_current_mtu());
        }
    }

    /// Looks again for larger datagrams than those that were found to pass on the active path (RFC 8899 §5.2). Those go on.
    pub fn raise_pmtu(&mut self) {
        if let Some(pmtud) = self.paths.get_active_mut().ok().and_then(|path| path.pmtud.as_mut()) {
            pmtud.raise();
        }
    }

    /// Takes the news that the host cannot send datagrams of `size` bytes to `peer`. None of that size leaves any more; what
    /// every path carries is not doubted.
    pub fn on_too_big(&mut self, peer: SocketAddr, size: usize) {
        let paths = self.paths.iter_mut().map(|(_, path)| path);
        for path in paths.filter(|path| path.peer_addr() == peer) {
            let least = crate::MIN_CLIENT_INITIAL_LEN;
            let carried = path.pmtud.as_mut().map_or(least, |pmtud| {
                pmtud.on_too_big(size);
                pmtud.get_current_mtu()
            });
            if (least + 1..=path.recovery.max_datagram_size()).contains(&size) {
                path.recovery.pmtud_update_max_datagram_size(carried);
            }
        }
    }

    /// Removes a path that the connection has left, where there would be no room for the peer's next address, and asks again
    /// for the validation of the active one where no response came in time.
    ///
    /// quiche removes a path only without a Destination Connection ID, and gives it every spare one: it would drop all
    /// packets of a peer that has moved as often as there are Connection IDs. The path's own Connection ID is retired
    /// (RFC 9000 §9.5), for which the peer issues another.
    pub fn make_path_room(&mut self) {
        if self.paths.len() < 2 {
            return;
        }
        let now = crate::clock::now();
        let Ok(path) = self.paths.get_active_mut() else {
            return;
        };
        path.repeat_challenge(now);
        let validated = path.validated();
        if !self.paths.is_full() {
            return;
        }
        let active = self.paths.get_active_path_id().ok();
        // Until its validation, the way back must stay open (RFC 9000 §9.3.2).
        let way_back = if validated { None } else { self.paths.way_back() };
        let left = self.paths.iter().filter(|(id, _)| Some(*id) != active && Some(*id) != way_back);
        let left = left.max_by_key(|(_, path)| Rest::of(path)).map(|(id, _)| id);
        if let (Some(left), Some(active)) = (left, active) {
            self.abandon_path(left, now);
            self.remove_path(left, active);
        }
    }

    /// Removes a path on which nothing is in flight. Its lost frames become the active path's, and the Connection IDs that no
    /// other path uses are retired.
    fn remove_path(&mut self, left: usize, active: usize) {
        let Ok(path) = self.paths.get_mut(left) else {
            return;
        };
        if path.recovery.bytes_in_flight() > 0 {
            return;
        }
        let mut lost: SmallVec<[(Epoch, Frame); 8]> = SmallVec::new();
        for &epoch in Epoch::epochs(Epoch::Initial..=Epoch::Application) {
            while let Some(frame) = path.recovery.next_lost_frame(epoch) {
                lost.push((epoch, frame));
            }
        }
        if let Ok(path) = self.paths.get_mut(active) {
            for (epoch, frame) in lost {
                path.recovery.add_lost_frame(epoch, frame);
            }
        }
        for dcid in self.ids.relink(left, active) {
            // Paths share one where the peer had issued no other.
            let mut others = self.paths.iter().filter(|(id, path)| *id != left && path.active_dcid_seq == Some(dcid));
            let _ = match others.next() {
                Some((sharer, _)) => self.ids.link_dcid_to_path_id(dcid, sharer),
                // The last one cannot be retired and stays with the active path.
                None => self.ids.retire_dcid(dcid).map(drop),
            };
        }
        self.paths.remove(left);
    }

    /// Declares everything in flight on a path lost, so that another sends it again.
    fn abandon_path(&mut self, id: usize, now: Instant) {
        if let Ok(path) = self.paths.get_mut(id) {
            let outcome = path.recovery.abandon(now);
            self.lost_count += outcome.lost_packets;
            self.lost_bytes += outcome.lost_bytes as u64;
        }
    }

    /// Declares everything in flight lost on the paths that failed their validation.
    pub(crate) fn abandon_failed_paths(&mut self, now: Instant) {
        let failed = self.paths.iter().filter(|(_, path)| path.validation_failed());
        let failed: SmallVec<[usize; 4]> = failed.map(|(id, _)| id).collect();
        failed.into_iter().for_each(|id| self.abandon_path(id, now));
    }

    /// Gives the active path, and then each other one that only shared it, another Destination Connection ID for one that the
    /// peer had us retire. Paths share one where no other is left.
    pub(crate) fn replace_lost_dcids(&mut self) {
        // `get_active_path_id` does not return a path without a Connection ID.
        let active = self.paths.iter().find(|(_, path)| path.stats().active).map(|(id, _)| id);
        let others = self.paths.iter().map(|(id, _)| id).filter(|id| Some(*id) != active);
        let ids: SmallVec<[usize; 4]> = active.into_iter().chain(others).collect();
        for id in ids {
            let is_active = Some(id) == active;
            let Ok(path) = self.paths.get_mut(id) else {
                continue;
            };
            // Another path may have got the only one before the active path.
            let lost = path.active_dcid_seq.map_or(is_active, |seq| self.ids.get_dcid(seq).is_err());
            if lost {
                let spare = self.ids.lowest_available_dcid_seq();
                let dcid = spare.unwrap_or_else(|| self.ids.oldest_dcid().seq);
                if spare.is_some() || is_active {
                    let _ = self.ids.link_dcid_to_path_id(dcid, id);
                }
                path.active_dcid_seq = Some(dcid);
            }
        }
    }
}

/// How far a path that the connection has left can be missed. The largest goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rest {
    /// Packets are in flight, or frames of lost ones wait to be sent again.
    InUse,
    /// It is under validation, or a probe waits to be sent on it.
    Probed,
    /// Nothing on it is needed any more.
    Idle,
}

impl Rest {
    fn of(path: &Path) -> Rest {
        let lost = Epoch::epochs(Epoch::Initial..=Epoch::Application)
            .iter()
            .any(|&epoch| path.recovery.has_lost_frames(epoch));
        if lost || path.recovery.bytes_in_flight() > 0 {
            Rest::InUse
        } else if path.under_validation() || path.probing_required() {
            Rest::Probed
        } else {
            Rest::Idle
        }
    }
}
