//! The frames of a packet, folded while they are read.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::scalar::{Scalar, Word, from_object, otherwise};
use crate::number::whole;

/// Parts of streams that are kept of a packet; it has room for few.
const MAX_PIECES: usize = 64;
/// Ranges that are kept of the ACK frames of a packet.
const MAX_RANGES: usize = 256;

/// A part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPiece {
    /// ID of the stream.
    pub stream: u64,
    /// Offset of its first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// How a connection was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Close {
    /// Code, if there is a number.
    pub code: Option<f64>,
    /// Name of the error.
    pub error: Word,
    /// Reason for people.
    pub reason: Word,
}

/// What the frames of a packet say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frames {
    /// Parts of streams.
    pub pieces: Vec<StreamPiece>,
    /// First and last packet number of each range of ACK frames.
    pub acked: Vec<(u64, u64)>,
    /// Packets that the peer received with CE, so far.
    pub ce: Option<f64>,
    /// A frame that closes the connection.
    pub close: Option<Close>,
    /// DATA_BLOCKED.
    pub data_blocked: bool,
    /// STREAM_DATA_BLOCKED.
    pub stream_data_blocked: bool,
    /// MAX_DATA.
    pub max_data: bool,
    /// MAX_STREAM_DATA.
    pub max_stream_data: bool,
    /// HANDSHAKE_DONE.
    pub handshake_done: bool,
    /// A frame that the peer must acknowledge.
    pub is_ack_eliciting: bool,
}

impl Frames {
    fn add(&mut self, frame: Frame) {
        let kind = frame.kind.as_str().to_ascii_lowercase();
        self.is_ack_eliciting |=
            !matches!(&*kind, "ack" | "padding" | "connection_close" | "application_close" | "");
        match &*kind {
            "stream" if self.pieces.len() < MAX_PIECES => self.pieces.push(StreamPiece {
                stream: frame.stream,
                offset: frame.offset,
                length: frame.length,
            }),
            "ack" => {
                let room = MAX_RANGES.saturating_sub(self.acked.len());
                self.acked.extend(frame.ranges.0.into_iter().take(room));
                self.ce = frame.ce.or(self.ce);
            }
            "connection_close" | "application_close" => self.close = Some(frame.close),
            "data_blocked" => self.data_blocked = true,
            "stream_data_blocked" => self.stream_data_blocked = true,
            "max_data" => self.max_data = true,
            "max_stream_data" => self.max_stream_data = true,
            "handshake_done" => self.handshake_done = true,
            _ => {}
        }
    }
}

impl<'de> Deserialize<'de> for Frames {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Fold;
        impl<'de> Visitor<'de> for Fold {
            type Value = Frames;
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Frames, A::Error> {
                let mut frames = Frames::default();
                while let Some(frame) = seq.next_element()? {
                    frames.add(frame);
                }
                Ok(frames)
            }
            otherwise!(@scalars);
            otherwise!(@map);
        }
        value.deserialize_any(Fold)
    }
}

#[derive(Debug, Default)]
struct Frame {
    kind: Word,
    stream: u64,
    offset: u64,
    length: u64,
    ranges: Ranges,
    ce: Option<f64>,
    close: Close,
}

impl Frame {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "acked_ranges" => self.ranges = map.next_value()?,
            "raw" => {
                let Length(length) = map.next_value()?;
                self.length = length.map_or(self.length, whole);
            }
            _ => {
                let value: Scalar = map.next_value()?;
                let count = whole(value.amount().unwrap_or(0.0));
                match key {
                    "frame_type" => self.kind = value.word(),
                    "stream_id" => self.stream = count,
                    "offset" => self.offset = count,
                    "length" | "len" => self.length = count,
                    "ce" => self.ce = value.amount(),
                    "error_code" | "raw_error_code" => {
                        self.close.code = value.amount().or(self.close.code);
                        if !value.word().as_str().is_empty() {
                            self.close.error = value.word();
                        }
                    }
                    "error" => self.close.error = value.word(),
                    "reason" | "reason_phrase" => self.close.reason = value.word(),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

from_object!(Frame);

/// Length in a `raw` field; that of the payload, if both are there.
#[derive(Debug, Default)]
struct Length(Option<f64>);

impl Length {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let value: Scalar = map.next_value()?;
        match key {
            "payload_length" => self.0 = value.amount(),
            "length" => self.0 = self.0.or(value.amount()),
            _ => {}
        }
        Ok(())
    }
}

from_object!(Length);

/// Ranges of packet numbers, each `[first, last]`, `[only]` or a number.
#[derive(Debug, Default)]
struct Ranges(Vec<(u64, u64)>);

impl<'de> Deserialize<'de> for Ranges {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Ranges;
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Ranges, A::Error> {
                let mut ranges = Vec::new();
                while let Some(range) = seq.next_element::<Range>()? {
                    if let (Some((first, last)), true) = (range.0, ranges.len() < MAX_RANGES) {
                        ranges.push((first, last));
                    }
                }
                Ok(Ranges(ranges))
            }
            otherwise!(@scalars);
            otherwise!(@map);
        }
        value.deserialize_any(Each)
    }
}

#[derive(Default)]
struct Range(Option<(u64, u64)>);

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Pair;
        impl<'de> Visitor<'de> for Pair {
            type Value = Range;
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Range, A::Error> {
                let (mut first, mut last) = (None, None);
                while let Some(value) = seq.next_element::<Scalar>()? {
                    let number = value.amount().map(whole);
                    first = first.or(number);
                    last = number.or(last);
                }
                Ok(Range(first.zip(last).map(|(one, other)| (one.min(other), one.max(other)))))
            }
            otherwise!(@scalars);
            otherwise!(@map);
        }
        value.deserialize_any(Pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_each_writer_are_folded() {
        let frames: Frames = serde_json::from_str(
            r#"[{"frame_type":"stream","stream_id":4,"offset":10,"raw":{"payload_length":7}},
                {"frame_type":"STREAM","stream_id":"8","offset":"3","length":5,"fin":true},
                {"frame_type":"ack","acked_ranges":[[3,5],[7],["9","8"],[]],"ce":2},
                {"frame_type":"connection_close","error_code":258,"reason":"tired"}, 5, null, []]"#,
        )
        .unwrap();
        assert_eq!(
            frames.pieces,
            [
                StreamPiece { stream: 4, offset: 10, length: 7 },
                StreamPiece { stream: 8, offset: 3, length: 5 }
            ]
        );
        assert_eq!(frames.acked, [(3, 5), (7, 7), (8, 9)]);
        assert_eq!((frames.ce, frames.is_ack_eliciting), (Some(2.0), true));
        assert_eq!(frames.close.map(|close| close.code), Some(Some(258.0)));
    }

    #[test]
    fn frames_are_bounded() {
        let many = vec![r#"{"frame_type":"stream","length":1}"#; 1000].join(",");
        let ranges = vec!["[1,2]"; 1000].join(",");
        let text = format!(r#"[{many},{{"frame_type":"ack","acked_ranges":[{ranges}]}}]"#);
        let frames: Frames = serde_json::from_str(&text).unwrap();
        assert_eq!((frames.pieces.len(), frames.acked.len()), (MAX_PIECES, MAX_RANGES));
    }
}
