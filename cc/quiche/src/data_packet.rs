//! Packets that have data of streams and nothing else: nearly all of a download's.
//!
//! The build script places this file at `data_packet.rs` of the patched source.

use std::net::SocketAddr;
use std::time::Instant;

use smallvec::SmallVec;

use crate::crypto::Algorithm;
use crate::ecn::Ecn;
use crate::packet;
use crate::packet::Epoch;
use crate::path::Path;
use crate::recovery::HandshakeStatus;
use crate::recovery::KeptFrame;
use crate::recovery::RecoveryOps;
use crate::recovery::Sent;
use crate::stream::Lent;
use crate::stream::StreamMap;
use crate::BufFactory;
use crate::Connection;
use crate::Error;
use crate::Result;
use crate::SendInfo;
use crate::LENT_LEN;

/// Room that the longest STREAM header and a byte of data take.
const LEAST_ROOM: usize = 20;

/// Length of the longest packet number in a header, in bytes.
const MAX_NUMBER_LEN: usize = 4;

/// Bits of a short header's first byte.
const FIXED_BIT: u8 = 0x40;
const KEY_PHASE_BIT: u8 = 0x04;

/// Type of a STREAM frame with an offset and a length. The lowest bit says that the stream ends.
const STREAM: u8 = 0x0e;

/// Mark of a varint of two bytes.
const TWO_BYTES: u16 = 0x4000;

/// Frames of a packet that were written.
struct Frames {
    frames: SmallVec<[KeptFrame; 1]>,
    /// Length of all, with data that was not copied.
    len: usize,
    /// Data at the end that is encrypted from where its stream holds it.
    lent: Option<(u64, Lent)>,
}

impl<F: BufFactory> Connection<F> {
    /// Sends a packet with data of streams, if nothing else is due, by the steps of `send_single()` that such a packet needs. `None`
    /// if anything else may be due: nothing was sent then, and `send_single()` finds out.
    pub(crate) fn send_data_packet(
        &mut self, out: &mut [u8], from: Option<SocketAddr>, to: Option<SocketAddr>, now: Instant,
    ) -> Result<Option<(usize, SendInfo)>> {
        let Some(path_id) = self.sends_data_alone().then(|| self.path_of_data(from, to)).flatten() else {
            return Ok(None);
        };
        let path = self.paths.get_mut(path_id)?;
        let Some(seal) = &mut self.crypto_ctx[Epoch::Application].crypto_seal else {
            return Ok(None);
        };

        let number = self.next_pkt_num;
        let acked = path.recovery.get_largest_acked_on_epoch(Epoch::Application);
        let number_len = packet::pkt_num_len(number, acked.unwrap_or(0));
        let dcid = path.active_dcid_seq.ok_or(Error::OutOfIdentifiers)?;
        let dcid = self.ids.get_dcid(dcid)?.cid.as_ref();
        let number_at = 1 + dcid.len();
        let payload_at = number_at + number_len;
        let overhead = payload_at + seal.alg().tag_len();
        let size = largest_datagram(path).min(out.len());
        let room = size.min(path.recovery.cwnd_available()).saturating_sub(overhead);
        if room < LEAST_ROOM || number_len > MAX_NUMBER_LEN {
            return Ok(None);
        }

        let out = &mut out[..size];
        // ChaCha20-Poly1305 takes longer for a packet in two parts.
        let least_lent = match seal.alg() {
            Algorithm::ChaCha20_Poly1305 => usize::MAX,
            _ => LENT_LEN,
        };
        let payload = &mut out[payload_at..payload_at + room];
        let Some(Frames { frames, len, lent }) = write_frames(&mut self.streams, payload, least_lent)? else {
            return Ok(None);
        };
        out[0] = FIXED_BIT | if self.key_phase { KEY_PHASE_BIT } else { 0 } | (number_len - 1) as u8;
        out[1..number_at].copy_from_slice(dcid);
        out[number_at..payload_at].copy_from_slice(&number.to_be_bytes()[size_of::<u64>() - number_len..]);

        let lent = match lent {
            Some((id, lent)) => Some(self.streams.get(id).ok_or(Error::InvalidStreamState(id))?.send.lent(lent)),
            None => None,
        };
        let copied = len - lent.map_or(0, <[u8]>::len);
        let mut out = octets::OctetsMut::with_slice(out);
        let written = packet::encrypt_pkt(&mut out, number, number_len, copied, payload_at, lent, seal)?;

        self.note_data_packet(path_id, frames, written, now).map(Some)
    }

    /// Returns the path of such a packet: the only one, if it needs no probe and nothing that was sent on it was lost.
    fn path_of_data(&self, from: Option<SocketAddr>, to: Option<SocketAddr>) -> Option<usize> {
        let (id, path) = self.paths.get_active_with_pid().filter(|_| self.paths.len() == 1)?;
        let is_meant = from.is_none_or(|from| from == path.local_addr()) && to.is_none_or(|to| to == path.peer_addr());
        let is_usual = path.validated() &&
            path.verified_peer_address &&
            !path.probing_required() &&
            !path.pmtud.as_ref().is_some_and(|pmtud| pmtud.should_probe()) &&
            !path.recovery.has_lost_frames(Epoch::Application) &&
            !path.recovery.should_elicit_ack(Epoch::Application);
        (is_meant && is_usual).then_some(id)
    }

    /// Returns whether the next packet is one of 1-RTT with data of streams and nothing else. No trace takes it.
    fn sends_data_alone(&self) -> bool {
        // What fails most often comes first.
        if self.pkt_num_spaces[Epoch::Application].ack_elicited || !self.streams.has_flushable() {
            return false;
        }
        #[cfg(feature = "qlog")]
        if self.qlog.streamer.is_some() {
            return false;
        }
        let crypto = &self.crypto_ctx[Epoch::Application];
        self.handshake_completed &&
            self.local_error.is_none() &&
            self.recovery_config.cc_factory.is_some() &&
            self.crypto_ctx.first() == Epoch::Application &&
            crypto.key_update.is_none() &&
            crypto.crypto_0rtt_open.is_none() &&
            !crypto.crypto_stream.is_flushable() &&
            !self.pkt_num_manager.should_skip_pn(true) &&
            self.dgram_send_queue.is_empty() &&
            !self.has_control_frames() &&
            log::max_level() < log::LevelFilter::Trace
    }

    /// Takes a packet of `written` bytes that [`Connection::send_data_packet`] has made.
    fn note_data_packet(
        &mut self, path_id: usize, frames: SmallVec<[KeptFrame; 1]>, written: usize, now: Instant,
    ) -> Result<(usize, SendInfo)> {
        let path = self.paths.get_mut(path_id)?;
        let mark = path.recovery.begin_datagram();
        path.needs_ack_eliciting = false;
        path.sent_count += 1;
        path.sent_bytes += written as u64;
        path.max_send_bytes = path.max_send_bytes.saturating_sub(written);
        if mark != Ecn::NotCapable {
            self.pkt_num_spaces[Epoch::Application].ecn.on_marked(mark);
        }

        let sent = Sent {
            pkt_num: self.next_pkt_num,
            frames,
            time_sent: now,
            time_acked: None,
            time_lost: None,
            size: written,
            ack_eliciting: true,
            in_flight: true,
            delivered: 0,
            delivered_time: now,
            first_sent_time: now,
            is_app_limited: false,
            tx_in_flight: 0,
            lost: 0,
            has_data: true,
            is_pmtud_probe: false,
        };
        let handshake = HandshakeStatus {
            has_handshake_keys: false,
            peer_verified_address: self.peer_verified_initial_address,
            completed: true,
        };
        self.next_pkt_num += 1;
        self.on_packet_sent(path_id, sent, Epoch::Application, handshake, now)?;

        self.emit_dgram = true;
        self.sent_count += 1;
        self.sent_bytes += written as u64;
        if !self.ack_eliciting_sent {
            self.ack_eliciting_sent = true;
            if let Some(timeout) = self.idle_timeout() {
                self.idle_timer = Some(now + timeout);
            }
        }

        let path = self.paths.get(path_id)?;
        let info = SendInfo {
            from: path.local_addr(),
            to: path.peer_addr(),
            at: path.recovery.get_packet_send_time(now),
            ecn: mark,
        };
        Ok((written, info))
    }
}

/// Returns the size of the largest datagram for a path, in bytes: a varint of two bytes can encode it.
fn largest_datagram(path: &Path) -> usize {
    let size = path.recovery.max_datagram_size().min(16_383);
    path.pmtud.as_ref().map_or(size, |pmtud| pmtud.get_current_mtu().min(size))
}

/// Writes STREAM frames into `out`, which has [`LEAST_ROOM`] or more, with data of the streams whose turn it is. A stream that can
/// send no more shares the packet with the next one. `None` if no stream had data.
fn write_frames<F: BufFactory>(
    streams: &mut StreamMap<F>, out: &mut [u8], least_lent: usize,
) -> Result<Option<Frames>> {
    let mut written = Frames { frames: SmallVec::new(), len: 0, lent: None };
    while let Some(key) = streams.next_flushable() {
        let stream = match streams.get_mut(key.id) {
            Some(stream) if !stream.send.is_stopped() => stream,
            _ => {
                streams.remove_flushable(&key);
                continue;
            },
        };
        let offset = stream.send.off_front();
        // Its type takes a byte, and its length two.
        let header_len = 3 + octets::varint_len(key.id) + octets::varint_len(offset);
        let (header, data) = out[written.len..].split_at_mut(header_len);
        let (len, fin, lent) = stream.send.emit_or_lend(data, written.len + header_len, least_lent)?;
        let is_emptied = !stream.is_flushable();
        let is_incremental = stream.incremental;
        if is_emptied {
            streams.remove_flushable(&key);
        }
        if len == 0 && !fin {
            // Its lost data has been acknowledged since.
            if is_emptied {
                continue;
            }
            break;
        }
        if !is_emptied && is_incremental {
            streams.remove_flushable(&key);
            streams.insert_flushable(&key);
        }
        streams.sub_tx_buffered(len);
        streams.on_sent(&key, len);

        header[0] = STREAM | u8::from(fin);
        let offset_at = 1 + put_varint(&mut header[1..], key.id);
        let length_at = offset_at + put_varint(&mut header[offset_at..], offset);
        header[length_at..].copy_from_slice(&(TWO_BYTES | len as u16).to_be_bytes());
        let kept = KeptFrame::Stream { stream_id: key.id, offset, length: len, fin };
        // A call of `push()` would wait for the bytes of the payload.
        if written.frames.is_empty() {
            written.frames = SmallVec::from_buf([kept]);
        } else {
            written.frames.push(kept);
        }
        written.len += header_len + len;
        written.lent = lent.map(|lent| (key.id, lent));
        // One that can send more is the last of its packet: a loss must not delay two of them.
        if !is_emptied || out.len() - written.len < LEAST_ROOM {
            break;
        }
    }
    Ok((written.len > 0).then_some(written))
}

/// Writes a varint (RFC 9000 §16) into the front of `out`, and returns its length.
fn put_varint(out: &mut [u8], value: u64) -> usize {
    let len = octets::varint_len(value);
    let mark = u64::from(len.trailing_zeros()) << 62;
    let bytes = (value << (u64::BITS as usize - 8 * len) | mark).to_be_bytes();
    for (out, byte) in out[..len].iter_mut().zip(bytes) {
        *out = byte;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_varint_is_what_octets_writes() {
        for shift in 0..62 {
            for value in [(1 << shift) - 1, 1 << shift, (1 << 62) - 1] {
                let (mut ours, mut theirs) = ([0; 8], [0; 8]);
                let len = put_varint(&mut ours, value);
                octets::OctetsMut::with_slice(&mut theirs).put_varint(value).unwrap();
                assert_eq!((len, ours), (octets::varint_len(value), theirs), "{value}");
            }
        }
    }
}
