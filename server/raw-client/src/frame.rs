//! Frames of QUIC version 1 (RFC 9000 §19), to be written in any packet.

use crate::varint::{Reader, varint};

/// A frame, with whatever values a test gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// That many PADDING frames.
    Padding(usize),
    /// PING.
    Ping,
    /// ACK without ECN counts; of those received, the counts are dropped.
    Ack {
        /// Largest packet number acknowledged.
        largest: u64,
        /// ACK Delay field, not scaled.
        delay: u64,
        /// First ACK Range.
        first: u64,
        /// Gap and ACK Range Length of each further range.
        ranges: Vec<(u64, u64)>,
    },
    /// RESET_STREAM.
    ResetStream {
        /// Stream.
        stream: u64,
        /// Application's error code.
        code: u64,
        /// Final size of the stream, bytes.
        size: u64,
    },
    /// STOP_SENDING.
    StopSending {
        /// Stream.
        stream: u64,
        /// Application's error code.
        code: u64,
    },
    /// CRYPTO.
    Crypto {
        /// Offset of the first byte.
        offset: u64,
        /// Bytes of TLS messages.
        data: Vec<u8>,
    },
    /// NEW_TOKEN.
    NewToken(Vec<u8>),
    /// STREAM, with offset and length.
    Stream {
        /// Stream.
        stream: u64,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes.
        data: Vec<u8>,
        /// Whether the stream ends behind them.
        fin: bool,
    },
    /// MAX_DATA.
    MaxData(u64),
    /// MAX_STREAM_DATA.
    MaxStreamData {
        /// Stream.
        stream: u64,
        /// Largest offset that may be sent.
        max: u64,
    },
    /// MAX_STREAMS.
    MaxStreams {
        /// Whether it is about bidirectional streams.
        bidirectional: bool,
        /// Number of streams.
        max: u64,
    },
    /// DATA_BLOCKED.
    DataBlocked(u64),
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked {
        /// Stream.
        stream: u64,
        /// Offset at which it is blocked.
        limit: u64,
    },
    /// STREAMS_BLOCKED.
    StreamsBlocked {
        /// Whether it is about bidirectional streams.
        bidirectional: bool,
        /// Number of streams.
        limit: u64,
    },
    /// NEW_CONNECTION_ID.
    NewConnectionId {
        /// Sequence number.
        sequence: u64,
        /// Retire Prior To.
        retire_prior_to: u64,
        /// Connection ID.
        id: Vec<u8>,
        /// Stateless Reset Token.
        token: [u8; 16],
    },
    /// RETIRE_CONNECTION_ID.
    RetireConnectionId(u64),
    /// PATH_CHALLENGE.
    PathChallenge([u8; 8]),
    /// PATH_RESPONSE.
    PathResponse([u8; 8]),
    /// CONNECTION_CLOSE.
    Close {
        /// Whether the application closes the connection.
        application: bool,
        /// Error code.
        code: u64,
        /// Reason phrase.
        reason: Vec<u8>,
    },
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// Bytes as they are.
    Raw(Vec<u8>),
}

impl Frame {
    /// Returns a PATH_CHALLENGE or PATH_RESPONSE's data, or a connection ID's part, that differs for each number.
    #[must_use]
    pub fn path_data(number: u64) -> [u8; 8] {
        number.to_be_bytes()
    }

    /// Returns an ACK of the packets from `first` to `largest`.
    #[must_use]
    pub fn ack(first: u64, largest: u64) -> Frame {
        Frame::Ack { largest, delay: 0, first: largest - first, ranges: Vec::new() }
    }

    /// Returns whether the receiver has to acknowledge it (RFC 9002 §2).
    #[must_use]
    pub fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Frame::Padding(_) | Frame::Ack { .. } | Frame::Close { .. })
    }

    /// Appends the frame's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut fields = |kind: u64, values: &[u64]| {
            out.extend(varint(kind));
            values.iter().for_each(|value| out.extend(varint(*value)));
        };
        match self {
            Frame::Padding(count) => out.resize(out.len() + count, 0),
            Frame::Ping => fields(0x1, &[]),
            Frame::Ack { largest, delay, first, ranges } => {
                fields(0x2, &[*largest, *delay, ranges.len() as u64, *first]);
                for (gap, length) in ranges {
                    out.extend([varint(*gap), varint(*length)].concat());
                }
            }
            Frame::ResetStream { stream, code, size } => fields(0x4, &[*stream, *code, *size]),
            Frame::StopSending { stream, code } => fields(0x5, &[*stream, *code]),
            Frame::Crypto { offset, data } => {
                fields(0x6, &[*offset, data.len() as u64]);
                out.extend(data);
            }
            Frame::NewToken(token) => {
                fields(0x7, &[token.len() as u64]);
                out.extend(token);
            }
            Frame::Stream { stream, offset, data, fin } => {
                let kind = 0xe | u64::from(*fin);
                fields(kind, &[*stream, *offset, data.len() as u64]);
                out.extend(data);
            }
            Frame::MaxData(max) => fields(0x10, &[*max]),
            Frame::MaxStreamData { stream, max } => fields(0x11, &[*stream, *max]),
            Frame::MaxStreams { bidirectional, max } => {
                fields(if *bidirectional { 0x12 } else { 0x13 }, &[*max]);
            }
            Frame::DataBlocked(limit) => fields(0x14, &[*limit]),
            Frame::StreamDataBlocked { stream, limit } => fields(0x15, &[*stream, *limit]),
            Frame::StreamsBlocked { bidirectional, limit } => {
                fields(if *bidirectional { 0x16 } else { 0x17 }, &[*limit])
            }
            other => other.write_connection_frame(out),
        }
    }

    /// Appends a frame about the connection, its IDs and paths.
    fn write_connection_frame(&self, out: &mut Vec<u8>) {
        match self {
            Frame::NewConnectionId { sequence, retire_prior_to, id, token } => {
                out.extend([varint(0x18), varint(*sequence), varint(*retire_prior_to)].concat());
                out.push(u8::try_from(id.len()).expect("a length of one byte"));
                out.extend(id);
                out.extend(token);
            }
            Frame::RetireConnectionId(sequence) => {
                out.extend([varint(0x19), varint(*sequence)].concat());
            }
            Frame::PathChallenge(data) => out.extend([&[0x1a], &data[..]].concat()),
            Frame::PathResponse(data) => out.extend([&[0x1b], &data[..]].concat()),
            Frame::Close { application, code, reason } => {
                out.push(if *application { 0x1d } else { 0x1c });
                out.extend(varint(*code));
                if !application {
                    // Type of the frame that caused it.
                    out.push(0);
                }
                out.extend(varint(reason.len() as u64));
                out.extend(reason);
            }
            Frame::HandshakeDone => out.push(0x1e),
            Frame::Raw(bytes) => out.extend(bytes),
            _ => unreachable!("written by the caller"),
        }
    }

    /// Takes a frame from the front; `None` if it is cut or of an unknown type.
    pub fn read(bytes: &mut Reader<'_>) -> Option<Frame> {
        let kind = bytes.varint()?;
        Some(match kind {
            0x0 => {
                let more = bytes.0.iter().take_while(|byte| **byte == 0).count();
                bytes.take(more)?;
                Frame::Padding(1 + more)
            }
            0x1 => Frame::Ping,
            0x2 | 0x3 => Frame::read_ack(bytes, kind == 0x3)?,
            0x4 => Frame::ResetStream {
                stream: bytes.varint()?,
                code: bytes.varint()?,
                size: bytes.varint()?,
            },
            0x5 => Frame::StopSending { stream: bytes.varint()?, code: bytes.varint()? },
            0x6 => Frame::Crypto { offset: bytes.varint()?, data: bytes.prefixed()?.to_vec() },
            0x7 => Frame::NewToken(bytes.prefixed()?.to_vec()),
            0x8..=0xf => Frame::read_stream(bytes, kind)?,
            0x10 => Frame::MaxData(bytes.varint()?),
            0x11 => Frame::MaxStreamData { stream: bytes.varint()?, max: bytes.varint()? },
            0x12 | 0x13 => Frame::MaxStreams { bidirectional: kind == 0x12, max: bytes.varint()? },
            0x14 => Frame::DataBlocked(bytes.varint()?),
            0x15 => Frame::StreamDataBlocked { stream: bytes.varint()?, limit: bytes.varint()? },
            0x16 | 0x17 => {
                Frame::StreamsBlocked { bidirectional: kind == 0x16, limit: bytes.varint()? }
            }
            _ => return Frame::read_connection_frame(bytes, kind),
        })
    }

    fn read_ack(bytes: &mut Reader<'_>, ecn: bool) -> Option<Frame> {
        let (largest, delay) = (bytes.varint()?, bytes.varint()?);
        let (count, first) = (bytes.varint()?, bytes.varint()?);
        let ranges = (0..count).map(|_| Some((bytes.varint()?, bytes.varint()?)));
        let ranges = ranges.collect::<Option<_>>()?;
        for _ in 0..if ecn { 3 } else { 0 } {
            bytes.varint()?;
        }
        Some(Frame::Ack { largest, delay, first, ranges })
    }

    fn read_stream(bytes: &mut Reader<'_>, kind: u64) -> Option<Frame> {
        let stream = bytes.varint()?;
        let offset = if kind & 4 == 0 { 0 } else { bytes.varint()? };
        let data = if kind & 2 == 0 { bytes.take(bytes.0.len())? } else { bytes.prefixed()? };
        Some(Frame::Stream { stream, offset, data: data.to_vec(), fin: kind & 1 == 1 })
    }

    fn read_connection_frame(bytes: &mut Reader<'_>, kind: u64) -> Option<Frame> {
        Some(match kind {
            0x18 => {
                let (sequence, retire_prior_to) = (bytes.varint()?, bytes.varint()?);
                let length = bytes.byte()?;
                Frame::NewConnectionId {
                    sequence,
                    retire_prior_to,
                    id: bytes.take(length.into())?.to_vec(),
                    token: bytes.array()?,
                }
            }
            0x19 => Frame::RetireConnectionId(bytes.varint()?),
            0x1a => Frame::PathChallenge(bytes.array()?),
            0x1b => Frame::PathResponse(bytes.array()?),
            0x1c | 0x1d => {
                let code = bytes.varint()?;
                if kind == 0x1c {
                    bytes.varint()?;
                }
                Frame::Close { application: kind == 0x1d, code, reason: bytes.prefixed()?.to_vec() }
            }
            0x1e => Frame::HandshakeDone,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
