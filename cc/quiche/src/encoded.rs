//! HEADERS frames that are encoded once and sent on many streams.
//!
//! The build script places this file at `h3/encoded.rs` of the patched source. Encoded fields refer to the static table of QPACK
//! alone, so every connection's peer reads them alike.

use bytes::Bytes;

#[cfg(feature = "qlog")]
use super::{EventData, EventImportance, FrameCreated, Http3Frame, QLOG_FRAME_CREATED};
use super::{frame, qpack, Connection, Error, NameValue, Priority, Result};
use super::{
    PRIORITY_URGENCY_LOWER_BOUND, PRIORITY_URGENCY_OFFSET, PRIORITY_URGENCY_UPPER_BOUND,
};

/// A whole HEADERS frame. Clones share its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedHeaders {
    frame: Bytes,
    /// Bytes of the frame before its field section.
    overhead: usize,
}

impl EncodedHeaders {
    /// Encodes a header section.
    ///
    /// # Errors
    /// The section is longer than any frame.
    pub fn new<T: NameValue>(headers: &[T]) -> Result<Self> {
        let len = |header: &T| header.name().len() + header.value().len() + 32;
        let mut section = vec![0; headers.iter().map(len).sum()];
        let len = qpack::Encoder::new().encode(headers, &mut section).map_err(|_| Error::InternalError)?;
        let overhead = octets::varint_len(frame::HEADERS_FRAME_TYPE_ID) + octets::varint_len(len as u64);
        let mut frame = vec![0; overhead + len];
        let mut writer = octets::OctetsMut::with_slice(&mut frame);
        writer.put_varint(frame::HEADERS_FRAME_TYPE_ID)?;
        writer.put_varint(len as u64)?;
        writer.put_bytes(&section[..len])?;
        Ok(Self { frame: frame.into(), overhead })
    }

    /// Returns the length of the encoded section, bytes.
    pub fn section_len(&self) -> usize {
        self.frame.len() - self.overhead
    }
}

impl Connection {
    /// Sends a response's first head, like `send_response_with_priority()`; without a copy of its bytes.
    ///
    /// # Errors
    /// The same as of that function.
    pub fn send_encoded_response(
        &mut self, conn: &mut crate::Connection, stream: u64,
        head: &EncodedHeaders, priority: &Priority, fin: bool,
    ) -> Result<()> {
        if self.streams.get(&stream).is_none_or(|open| open.local_initialized()) {
            return Err(Error::FrameUnexpected);
        }
        if !self.frames_greased && conn.grease {
            self.send_grease_frames(conn, stream)?;
            self.frames_greased = true;
        }
        let len = head.frame.len();
        conn.make_head_room(len);
        match conn.stream_writable(stream, len) {
            Ok(true) => {},
            Ok(false) => return Err(Error::StreamBlocked),
            Err(error) => {
                if conn.stream_finished(stream) {
                    self.streams.remove(&stream);
                }
                return Err(error.into());
            },
        }
        conn.stream_send_zc(stream, head.frame.clone(), fin)?;
        #[cfg(feature = "qlog")]
        self.trace_encoded(conn, stream, head);
        if fin {
            self.finish_local_stream(conn, stream, true);
        } else if let Some(open) = self.streams.get_mut(&stream) {
            open.initialize_local();
        }
        let urgency = priority
            .urgency
            .clamp(PRIORITY_URGENCY_LOWER_BOUND, PRIORITY_URGENCY_UPPER_BOUND);
        conn.stream_priority(stream, urgency + PRIORITY_URGENCY_OFFSET, priority.incremental)?;
        Ok(())
    }

    /// Adds the frame to the connection's trace, if there is one.
    #[cfg(feature = "qlog")]
    fn trace_encoded(&mut self, conn: &mut crate::Connection, stream: u64, head: &EncodedHeaders) {
        let traced = EventImportance::from(QLOG_FRAME_CREATED).is_contained_in(&conn.qlog.level);
        let Some(streamer) = conn.qlog.streamer.as_mut().filter(|_| traced) else {
            return;
        };
        let section = &head.frame[head.overhead..];
        let fields = self.qpack_decoder.decode(section, u64::MAX).unwrap_or_default();
        let text = |bytes: &[u8]| Some(String::from_utf8_lossy(bytes).into_owned());
        let fields = fields.iter().map(|field| qlog::events::http3::HttpHeader {
            name: text(field.name()),
            name_bytes: None,
            value: text(field.value()),
            value_bytes: None,
        });
        let frame = Http3Frame::Headers { headers: fields.collect(), raw: None };
        let event = EventData::Http3FrameCreated(FrameCreated {
            stream_id: stream,
            length: Some(section.len() as u64),
            frame,
            ..Default::default()
        });
        streamer.add_event_data_now(event).ok();
    }
}
