//! A connection's trace without secrets.
//!
//! The build script places this file at `redact.rs` of the patched source. quiche writes every event through [`Streamer`]: it
//! replaces what an event must not contain, and drops events of which it does not know that.

use std::sync::Arc;
use std::time::Instant;

use qlog::events::http3::{Http3Frame, HttpHeader};
use qlog::events::quic::{PacketHeader, QuicFrame, TransportInitiator};
use qlog::events::{Event, EventData, EventImportance, JsonEvent, RawInfo};
use qlog::streamer::QlogStreamer;
use qlog::{Error, Result};

/// Text in place of a value. It is the same for every value, so it does not tell the value's length.
pub const REDACTED: &str = "<redacted>";

/// Schemas of the events in a trace: those of QUIC and HTTP/3 by the drafts that they follow, and the application's own.
pub const SCHEMAS: [&str; 3] = [
    "urn:ietf:params:qlog:events:quic-13",
    "urn:ietf:params:qlog:events:http3-13",
    "urn:x-sluicegate:qlog:events:sluicegate",
];

/// Name of the field in whose grammar a PRIORITY_UPDATE frame has its value (RFC 9218 §7).
const PRIORITY: &str = "priority";

/// Values of fields that a trace contains. The default contains those of the pseudo-header fields, without queries.
#[derive(Clone, Debug, Default)]
pub struct Visible {
    /// Names of the fields whose values are written, in lower case.
    pub fields: Arc<[String]>,
    /// Whether `:path` is written with its query.
    pub query: bool,
}

/// Writes the events of a connection to its trace, without secrets.
pub struct Streamer {
    inner: QlogStreamer,
    visible: Visible,
    /// Time of the latest event.
    latest: Instant,
}

impl From<QlogStreamer> for Streamer {
    fn from(inner: QlogStreamer) -> Self {
        Self {
            latest: inner.start_time(),
            inner,
            visible: Visible::default(),
        }
    }
}

impl Streamer {
    /// Writes the values of these fields from now on.
    pub fn show(&mut self, visible: Visible) {
        self.visible = visible;
    }

    /// Writes an event at the time that quiche sees.
    pub(crate) fn add_event_data_now(&mut self, data: EventData) -> Result<()> {
        self.add_event_data_with_instant(data, crate::clock::now())
    }

    pub(crate) fn add_event_data_with_instant(&mut self, mut data: EventData, now: Instant) -> Result<()> {
        if !redact(&mut data, &self.visible) {
            return Err(Error::Done);
        }
        let at = self.in_order(now);
        self.inner.add_event_data_with_instant(data, at)
    }

    /// Returns the time of the next event, which is not before that of the last one. The application tells of waits when it learns what
    /// they are for, and quiche has written events since they began.
    fn in_order(&mut self, at: Instant) -> Instant {
        self.latest = self.latest.max(at);
        self.latest
    }

    pub(crate) fn add_event(&mut self, mut event: Event) -> Result<()> {
        if !redact(&mut event.data, &self.visible) {
            return Err(Error::Done);
        }
        self.inner.add_event(event)
    }

    /// Writes an event of the application, which contains no secrets.
    pub(crate) fn add_of_application(&mut self, name: &str, data: serde_json::Value, at: Instant) -> Result<()> {
        // The writer sets the time.
        let event = JsonEvent { time: 0.0, importance: EventImportance::Base, name: name.to_owned(), data };
        let at = self.in_order(at);
        self.inner.add_event_with_instant(event, at)
    }

    /// Returns the time that the events count from.
    pub(crate) fn start_time(&self) -> Instant {
        self.inner.start_time()
    }

    /// Ends the trace.
    pub fn finish_log(&mut self) -> Result<()> {
        self.inner.finish_log()
    }

    /// Returns the writer.
    #[allow(clippy::borrowed_box, reason = "upstream's signature")]
    pub fn writer(&self) -> &Box<dyn std::io::Write + Send + Sync> {
        self.inner.writer()
    }
}

/// Replaces the secrets of an event. Returns whether it may be written: events that quiche does not write today may not.
fn redact(data: &mut EventData, visible: &Visible) -> bool {
    match data {
        EventData::QuicParametersSet(parameters) => {
            hide(&mut parameters.stateless_reset_token);
            if let Some(address) = &mut parameters.preferred_address {
                address.stateless_reset_token = REDACTED.to_owned();
            }
            for parameter in &mut parameters.unknown_parameters {
                parameter.value = REDACTED.to_owned();
            }
        }
        EventData::QuicPacketReceived(packet) => {
            header(&mut packet.header);
            clear(&mut packet.raw);
            packet.stateless_reset_token = None;
            packet.frames.iter_mut().flatten().for_each(|one| frame(one, true));
        }
        EventData::QuicPacketSent(packet) => {
            header(&mut packet.header);
            clear(&mut packet.raw);
            packet.stateless_reset_token = None;
            packet.frames.iter_mut().flatten().for_each(|one| frame(one, false));
        }
        EventData::QuicConnectionClosed(closed) => {
            if closed.initiator != Some(TransportInitiator::Local) {
                hide(&mut closed.reason);
            }
        }
        EventData::QuicKeyUpdated(keys) => {
            hide(&mut keys.old);
            hide(&mut keys.new);
        }
        EventData::QuicStreamDataMoved(moved) => clear(&mut moved.raw),
        EventData::Http3FrameCreated(created) => {
            clear(&mut created.raw);
            http3_frame(&mut created.frame, visible);
        }
        EventData::Http3FrameParsed(parsed) => {
            clear(&mut parsed.raw);
            http3_frame(&mut parsed.frame, visible);
        }
        EventData::QuicMtuUpdated(_) |
        EventData::QuicEcnStateUpdated(_) |
        EventData::QuicMetricsUpdated(_) |
        EventData::QuicCongestionStateUpdated(_) |
        EventData::Http3StreamTypeSet(_) => {}
        _ => return false,
    }
    true
}

fn header(header: &mut PacketHeader) {
    if let Some(token) = &mut header.token {
        token.details = None;
        clear(&mut token.raw);
    }
}

/// Replaces the secrets of a frame. `received` is whether the peer sent it: its reasons are its own words.
fn frame(frame: &mut QuicFrame, received: bool) {
    match frame {
        QuicFrame::NewToken { token, raw: all } => {
            token.details = None;
            clear(&mut token.raw);
            clear_boxed(all);
        }
        QuicFrame::NewConnectionId { stateless_reset_token, raw, .. } => {
            hide(stateless_reset_token);
            clear_boxed(raw);
        }
        QuicFrame::PathChallenge { data, raw } | QuicFrame::PathResponse { data, raw } => {
            hide(data);
            clear_boxed(raw);
        }
        QuicFrame::ConnectionClose { reason, reason_bytes, .. } => {
            if received {
                hide(reason);
                hide(reason_bytes);
            }
        }
        QuicFrame::Padding { raw } |
        QuicFrame::Ping { raw } |
        QuicFrame::Ack { raw, .. } |
        QuicFrame::ResetStream { raw, .. } |
        QuicFrame::StopSending { raw, .. } |
        QuicFrame::Crypto { raw, .. } |
        QuicFrame::Stream { raw, .. } |
        QuicFrame::MaxData { raw, .. } |
        QuicFrame::MaxStreamData { raw, .. } |
        QuicFrame::MaxStreams { raw, .. } |
        QuicFrame::DataBlocked { raw, .. } |
        QuicFrame::StreamDataBlocked { raw, .. } |
        QuicFrame::StreamsBlocked { raw, .. } |
        QuicFrame::RetireConnectionId { raw, .. } |
        QuicFrame::HandshakeDone { raw } |
        QuicFrame::Datagram { raw } |
        QuicFrame::Unknown { raw, .. } => clear_boxed(raw),
    }
}

fn http3_frame(frame: &mut Http3Frame, visible: &Visible) {
    match frame {
        Http3Frame::Headers { headers, raw: all } | Http3Frame::PushPromise { headers, raw: all, .. } => {
            headers.iter_mut().for_each(|one| field(one, visible));
            clear(all);
        }
        Http3Frame::PriorityUpdate { priority_field_value, raw: all, .. } => {
            if !contains(&visible.fields, PRIORITY) {
                *priority_field_value = REDACTED.to_owned();
            }
            clear(all);
        }
        Http3Frame::Data { raw: all } |
        Http3Frame::CancelPush { raw: all, .. } |
        Http3Frame::Settings { raw: all, .. } |
        Http3Frame::Goaway { raw: all, .. } |
        Http3Frame::MaxPushId { raw: all, .. } |
        Http3Frame::Reserved { raw: all, .. } |
        Http3Frame::Unknown { raw: all, .. } => clear(all),
    }
}

/// Replaces the value of a field, or the part of it that is not visible. Bytes that are no text are never written.
fn field(field: &mut HttpHeader, visible: &Visible) {
    field.value_bytes = None;
    let HttpHeader { name, value, .. } = field;
    let (Some(name), Some(value)) = (name.as_deref(), value.as_mut()) else {
        field.value = None;
        return;
    };
    let hidden = match name {
        ":method" | ":scheme" | ":protocol" | ":status" => None,
        // Before `@` stand a name and a password (RFC 3986 §3.2.1).
        ":authority" => value.contains('@').then_some(0),
        // Anything else may be a URI with a name and a password.
        ":path" if !value.starts_with('/') && value != "*" => Some(0),
        ":path" if visible.query => None,
        ":path" => value.find(['?', '#']).map(|at| at + 1),
        name => (!contains(&visible.fields, name)).then_some(0),
    };
    if let Some(at) = hidden {
        value.truncate(at);
        value.push_str(REDACTED);
    }
}

fn contains(fields: &[String], name: &str) -> bool {
    fields.iter().any(|field| field == name)
}

fn hide(text: &mut Option<String>) {
    if let Some(text) = text {
        *text = REDACTED.to_owned();
    }
}

/// Removes bytes of a packet or of a frame; their numbers stay.
fn clear(raw: &mut Option<RawInfo>) {
    if let Some(raw) = raw {
        raw.data = None;
    }
}

fn clear_boxed(raw: &mut Option<Box<RawInfo>>) {
    if let Some(raw) = raw {
        raw.data = None;
    }
}

#[cfg(test)]
mod tests {
    use qlog::events::quic::{PacketReceived, PacketType};

    use super::*;

    const MARK: &str = "5ec4e7";

    fn written(mut data: EventData) -> String {
        assert!(redact(&mut data, &Visible::default()));
        format!("{data:?}")
    }

    #[test]
    fn tokens_of_frames_and_headers_are_replaced() {
        let raw = || RawInfo {
            length: Some(3),
            payload_length: None,
            data: Some(Box::new(MARK.to_owned())),
        };
        let token = qlog::Token {
            ty: None,
            details: Some(MARK.to_owned()),
            raw: Some(raw()),
        };
        let mut header = PacketHeader::with_type(PacketType::Initial, Some(1), None, None, None);
        header.token = Some(Box::new(token.clone()));
        let id = crate::frame::Frame::NewConnectionId {
            seq_num: 1,
            retire_prior_to: 0,
            conn_id: vec![1; 8],
            reset_token: [0x5e; 16],
        };
        let frames = vec![
            QuicFrame::NewToken { token, raw: None },
            QuicFrame::Crypto { offset: 0, raw: Some(Box::new(raw())) },
            QuicFrame::PathChallenge { data: Some(MARK.to_owned()), raw: None },
            id.to_qlog(),
        ];
        let packet = PacketReceived {
            header,
            raw: Some(raw()),
            frames: Some(frames),
            ..Default::default()
        };
        let text = written(EventData::QuicPacketReceived(packet));
        assert!(!text.contains(MARK) && !text.contains("5e5e5e"), "{text}");
        assert!(text.contains("NewToken") && text.contains("length: Some(3)"), "{text}");
    }

    #[test]
    fn names_and_passwords_before_a_host_are_replaced() {
        let mut user = HttpHeader {
            name: Some(":authority".to_owned()),
            name_bytes: None,
            value: Some(format!("user:{MARK}@example.org")),
            value_bytes: Some(MARK.to_owned()),
        };
        field(&mut user, &Visible::default());
        assert_eq!((user.value.as_deref(), user.value_bytes), (Some(REDACTED), None));
    }

    #[test]
    fn paths_that_may_name_a_user_are_replaced() {
        for (path, query, expected) in [
            ("https://user:5ec4e7@example.org/a", false, REDACTED),
            ("https://user:5ec4e7@example.org/a", true, REDACTED),
            ("user:5ec4e7@example.org", false, REDACTED),
            ("", false, REDACTED),
            ("*5ec4e7", false, REDACTED),
            ("*", false, "*"),
            ("/a", false, "/a"),
            ("/a?b", true, "/a?b"),
        ] {
            let mut header = HttpHeader {
                name: Some(":path".to_owned()),
                name_bytes: None,
                value: Some(path.to_owned()),
                value_bytes: None,
            };
            let visible = Visible { query, ..Visible::default() };
            field(&mut header, &visible);
            assert_eq!(header.value.as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn kinds_of_events_that_quiche_does_not_write_are_dropped() {
        let message = Some(MARK.to_owned());
        let mut unknown = EventData::LogLevelInfo { code: None, message };
        assert!(!redact(&mut unknown, &Visible::default()));
    }
}
