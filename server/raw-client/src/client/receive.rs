//! What the server sends: packets, the handshake, acknowledgements.

use rustls::quic::KeyChange;

use super::Client;
use crate::frame::Frame;
use crate::packet::{Opened, Packet, PacketKind, open_header};
use crate::parameters::Parameters;
use crate::retry;
use crate::tls::Tls;
use crate::varint::Reader;

/// Kinds of packets by the index of their space, for what the client sends by itself.
const KINDS: [PacketKind; 3] = [PacketKind::Initial, PacketKind::Handshake, PacketKind::OneRtt];
/// Padding of a datagram that is as large as those that prove a path (RFC 9000 §8.2.2).
const PATH_PADDING: usize = 1150;

impl Client {
    /// Takes a datagram of the server, and queues what the policy says.
    ///
    /// # Panics
    /// If the server's transport parameters do not agree with its connection IDs (RFC 9000 §7.3).
    pub fn receive(&mut self, datagram: &[u8]) {
        let mut rest = datagram;
        while !rest.is_empty()
            && let Some(packet) = Packet::take(&mut rest, self.scid.len())
        {
            match packet {
                Packet::Protected { kind, scid, bytes, number } => {
                    self.on_packet(kind, scid, bytes, number)
                }
                Packet::Retry { scid, bytes, token } => self.on_retry(scid, bytes, token),
                Packet::Versions(versions) => self.versions = Some(versions),
            }
        }
        self.respond();
    }

    fn on_retry(&mut self, scid: &[u8], bytes: &[u8], token: usize) {
        // At most one, and only before anything else (RFC 9000 §17.2.5.2).
        if self.retries > 0 || self.server_scid.is_some() {
            return;
        }
        let Some(body) = retry::verify(bytes, &self.first_dcid) else {
            return;
        };
        self.retries += 1;
        self.retry_scid = Some(scid.to_vec());
        self.token = body[token..].to_vec();
        self.dcid = scid.to_vec();
        self.initial = Tls::initial_keys(scid);
        self.repeat_hello();
    }

    /// Sends the first messages of TLS once more.
    pub fn repeat_hello(&mut self) {
        self.spaces[0].unsent = self.hello.clone();
        self.spaces[0].sent = 0;
        self.respond();
    }

    fn on_packet(&mut self, kind: PacketKind, scid: &[u8], bytes: &[u8], number: usize) {
        let expected = self.largest(kind).0.map_or(0, |largest| largest + 1);
        let header_key = match kind {
            PacketKind::Initial => Some(&*self.initial.remote.header),
            PacketKind::Handshake => self.handshake.as_ref().map(|keys| &*keys.remote.header),
            _ => self.one_rtt.as_ref().map(|keys| &*keys.remote_header),
        };
        let opened = header_key.and_then(|key| open_header(bytes, number, key, expected));
        let payload = opened.and_then(|opened| {
            let sealed = bytes.get(opened.header.len()..)?;
            Some((opened.number, self.open(kind, &opened, sealed)?))
        });
        let Some((number, payload)) = payload else {
            self.is_reset |= kind == PacketKind::OneRtt && self.is_reset_token(bytes);
            return;
        };
        if kind == PacketKind::Initial && self.server_scid.is_none() {
            self.server_scid = Some(scid.to_vec());
            self.dcid = scid.to_vec();
        }
        let mut reader = Reader(&payload);
        let (mut elicits, mut is_withheld) = (false, false);
        while !reader.is_empty() {
            let frame = Frame::read(&mut reader).expect("a frame of version 1");
            elicits |= frame.is_ack_eliciting();
            is_withheld |= self.withholds(&frame);
            self.on_frame(kind, frame);
        }
        if is_withheld {
            return;
        }
        let space = &mut self.spaces[kind.space()];
        space.received.add(number);
        space.owes_ack |= elicits;
    }

    /// Returns whether a frame contains a byte whose packets are not acknowledged.
    fn withholds(&self, frame: &Frame) -> bool {
        let Frame::Stream { offset, data, .. } = frame else {
            return false;
        };
        let range = *offset..*offset + data.len() as u64;
        self.withheld.is_some_and(|byte| range.contains(&byte))
    }

    fn open(&mut self, kind: PacketKind, opened: &Opened, sealed: &[u8]) -> Option<Vec<u8>> {
        let keys = match kind {
            PacketKind::Initial => &self.initial.remote,
            PacketKind::Handshake => &self.handshake.as_ref()?.remote,
            _ => {
                let keys = self.one_rtt.as_mut()?;
                return keys.open(opened.number, opened.phase, &opened.header, sealed);
            }
        };
        let mut payload = sealed.to_vec();
        let length = keys.packet.decrypt_in_place(opened.number, &opened.header, &mut payload);
        let length = length.ok()?.len();
        payload.truncate(length);
        Some(payload)
    }

    /// Returns whether a datagram ends with a token of the server's connection IDs.
    fn is_reset_token(&self, datagram: &[u8]) -> bool {
        let told = self.server_parameters();
        let told = told.as_ref().and_then(|known| known.bytes(Parameters::RESET_TOKEN));
        let mut tokens: Vec<&[u8]> = told.into_iter().collect();
        tokens.extend(self.frames.iter().filter_map(|frame| match frame {
            Frame::NewConnectionId { token, .. } => Some(&token[..]),
            _ => None,
        }));
        tokens.iter().any(|token| datagram.ends_with(token))
    }

    fn on_frame(&mut self, kind: PacketKind, frame: Frame) {
        match frame {
            Frame::Padding(_) => {}
            Frame::Ack { largest, .. } => {
                let acked = &mut self.spaces[kind.space()].acked;
                *acked = (*acked).max(Some(largest));
            }
            Frame::Crypto { offset, data } => {
                let messages = self.spaces[kind.space()].crypto.add(offset, &data);
                if !messages.is_empty() {
                    self.on_messages(&messages);
                }
            }
            Frame::Stream { stream, offset, data, fin } => {
                let received = self.streams.entry(stream).or_default();
                received.add(offset, &data, fin);
            }
            Frame::ResetStream { stream, code, .. } => {
                self.streams.entry(stream).or_default().reset = Some(code);
            }
            Frame::StopSending { stream, code } => {
                self.streams.entry(stream).or_default().stopped = Some(code);
            }
            Frame::PathChallenge(data) => {
                if self.policy.paths {
                    self.send(&[Frame::PathResponse(data), Frame::Padding(PATH_PADDING)]);
                }
                self.frames.push(frame);
            }
            frame => self.frames.push(frame),
        }
    }

    fn on_messages(&mut self, messages: &[u8]) {
        let was_handshaking = self.tls.is_handshaking();
        if let Err(error) = self.tls.read_hs(messages) {
            self.tls_error = Some(error);
            return;
        }
        self.pump_tls();
        if was_handshaking && !self.tls.is_handshaking() {
            self.check_ids();
        }
    }

    /// Checks the connection IDs in the server's transport parameters (RFC 9000 §7.3).
    fn check_ids(&self) {
        let parameters = self.server_parameters().expect("transport parameters");
        for (id, expected) in [
            (Parameters::ORIGINAL_DCID, Some(&self.first_dcid)),
            (Parameters::INITIAL_SCID, self.server_scid.as_ref()),
            (Parameters::RETRY_SCID, self.retry_scid.as_ref()),
        ] {
            let expected = expected.map(Vec::as_slice);
            assert_eq!(parameters.bytes(id), expected, "transport parameter {id:#x}");
        }
    }

    /// Takes what TLS has to say, and its keys.
    pub(super) fn pump_tls(&mut self) {
        loop {
            let mut messages = Vec::new();
            let change = self.tls.write_hs(&mut messages);
            let silent = messages.is_empty();
            self.spaces[self.level].unsent.extend(messages);
            match change {
                Some(KeyChange::Handshake { keys }) => {
                    self.handshake = Some(keys);
                    self.level = PacketKind::Handshake.space();
                }
                Some(KeyChange::OneRtt { keys, next }) => {
                    self.one_rtt = Some(crate::keys::OneRtt::new(keys, next));
                    self.level = PacketKind::OneRtt.space();
                }
                None if silent => return,
                None => {}
            }
        }
    }

    /// Queues one datagram with the acknowledgements that are due and the messages of TLS.
    pub(super) fn respond(&mut self) {
        let mut packets = Vec::new();
        for kind in KINDS {
            let space = &mut self.spaces[kind.space()];
            let mut frames = Vec::new();
            if self.policy.acks && std::mem::take(&mut space.owes_ack) {
                frames.extend(space.received.ack());
            }
            if self.policy.handshake && !space.unsent.is_empty() {
                let data = std::mem::take(&mut space.unsent);
                let offset = space.sent;
                space.sent += data.len() as u64;
                frames.push(Frame::Crypto { offset, data });
            }
            if !frames.is_empty() && self.local(kind).is_some() {
                packets.push((kind, frames));
            }
        }
        if !packets.is_empty() {
            let datagram = self.datagram(&packets);
            self.datagrams.push(datagram);
        }
    }
}
