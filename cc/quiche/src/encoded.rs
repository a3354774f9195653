//! HEADERS frames that are encoded once and sent on many streams, and sections that are left encoded when they arrive.
//!
//! The build script places this file at `h3/encoded.rs` of the patched source. Encoded fields refer to the static table of QPACK
//! alone, so every connection's peer reads them alike.

use bytes::Bytes;

#[cfg(feature = "qlog")]
use super::{EventData, EventImportance, FrameCreated, Http3Frame, QLOG_FRAME_CREATED};
use super::{frame, qpack, stream, BufFactory, Connection, Error, Header, NameValue, Priority, Result};
use super::{
    PRIORITY_URGENCY_LOWER_BOUND, PRIORITY_URGENCY_OFFSET, PRIORITY_URGENCY_UPPER_BOUND,
    SETTINGS_MAX_FIELD_SECTION_SIZE_DEFAULT,
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
        self.send_encoded(conn, stream, head, fin)?;
        let urgency = priority
            .urgency
            .clamp(PRIORITY_URGENCY_LOWER_BOUND, PRIORITY_URGENCY_UPPER_BOUND);
        conn.stream_priority(stream, urgency + PRIORITY_URGENCY_OFFSET, priority.incremental)?;
        Ok(())
    }

    /// Sends a request's head on a new stream, like `send_request()`; without a copy of its bytes. Returns the stream.
    ///
    /// # Errors
    /// The same as of that function.
    pub fn send_encoded_request(
        &mut self, conn: &mut crate::Connection, head: &EncodedHeaders, fin: bool,
    ) -> Result<u64> {
        if self.peer_goaway_id.is_some() {
            return Err(Error::FrameUnexpected);
        }
        let id = self.next_request_stream_id;
        let following = id.checked_add(4).ok_or(Error::IdError)?;
        let longest = self.local_settings.max_field_section_size;
        let longest = longest.unwrap_or(SETTINGS_MAX_FIELD_SECTION_SIZE_DEFAULT);
        let stream = <stream::Stream>::new(id, true, longest, self.max_priority_update_size);
        self.streams.insert(id, stream);
        // A write without bytes makes the stream.
        let made = conn.stream_send(id, b"", false).map_err(|error| match error {
            crate::Error::Done => Error::StreamBlocked,
            error => error.into(),
        });
        if let Err(error) = made.and_then(|_| self.send_encoded(conn, id, head, fin)) {
            self.streams.remove(&id);
            return Err(error);
        }
        self.next_request_stream_id = following;
        Ok(id)
    }

    /// Sends a whole head, or nothing.
    fn send_encoded(
        &mut self, conn: &mut crate::Connection, stream: u64, head: &EncodedHeaders, fin: bool,
    ) -> Result<()> {
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
        Ok(())
    }

    /// Leaves the header sections that arrive from now on encoded: the list of `Event::Headers` is empty, or not where the
    /// connection has a trace, and the caller finds the section in [`Connection::section`] until the next call of `poll()`.
    pub fn keep_sections(&mut self) {
        self.section.get_or_insert_default();
    }

    /// Returns the last header section that arrived, as the peer encoded it. Equal bytes are equal fields, because none refers
    /// to a dynamic table.
    pub fn section(&self) -> &[u8] {
        self.section.as_deref().unwrap_or_default()
    }

    /// Decodes the last header section that arrived.
    ///
    /// # Errors
    /// The section is broken, or larger than the limit; the connection is closed with the code for it.
    pub fn decode_section(&mut self, conn: &mut crate::Connection) -> Result<Vec<Header>> {
        let longest = self.local_settings.max_field_section_size.unwrap_or(u64::MAX);
        let section = self.section.as_deref().unwrap_or_default();
        self.qpack_decoder.decode(section, longest).map_err(|error| {
            let error = match error {
                qpack::Error::HeaderListTooLarge => Error::ExcessiveLoad,
                _ => Error::QpackDecompressionFailed,
            };
            // It may be closed already.
            let _ = conn.close(true, error.to_wire(), b"Error parsing headers.");
            error
        })
    }

    /// Keeps a section that has arrived, if the application asked for it. Returns whether nothing else needs its fields.
    pub(super) fn keep_section<F: BufFactory>(
        &mut self, conn: &crate::Connection<F>, section: &[u8],
    ) -> bool {
        let Some(kept) = &mut self.section else {
            return false;
        };
        kept.clear();
        kept.extend_from_slice(section);
        #[cfg(feature = "qlog")]
        let traced = conn.qlog.streamer.is_some();
        #[cfg(not(feature = "qlog"))]
        let traced = false;
        !traced
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
