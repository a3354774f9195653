//! Heads of responses: their lines, and their encodings.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, DATE, SERVER};
use http::{HeaderName, HeaderValue};
use quiche::h3::{EncodedHeaders, Error, NameValue};
use sluicegate_http::date;
use sluicegate_http::exchange::{Fields, NO_SERVER, ReplyFields, has_content};

use super::write_context::WriteContext;

/// Number of encodings that a thread keeps, a power of two.
const KEPT: usize = 64;

/// Length of a field line beyond its name and its value, at most, bytes: an index and two lengths.
const LINE: usize = 8;

/// Length of the lines that a final head has beyond its fields, at most, bytes: status, server, date and length.
const ADDED: usize = 128;

thread_local! {
    /// Encodings of heads whose fields replies share; the place of each follows from the address of its fields.
    static ENCODED: RefCell<[Option<Encoding>; KEPT]> = const { RefCell::new([const { None }; KEPT]) };
}

/// Head in the form in which its stream takes it.
#[derive(Debug)]
pub(super) enum Head {
    /// Lines to encode.
    Lines(Vec<Line>),
    /// Head that is encoded once for many responses; only ever the first of a response.
    Shared(SharedHead),
}

/// Line of a head.
#[derive(Clone, Debug)]
pub(super) enum Line {
    /// Status, as text.
    Status([u8; 3]),
    /// Field.
    Field(HeaderName, HeaderValue),
}

/// Final head whose fields replies share.
#[derive(Clone, Debug)]
pub(super) struct SharedHead {
    fields: Arc<Fields>,
    status: u16,
    length: u64,
}

/// Heads that wait to be sent, with their statuses.
#[derive(Debug, Default)]
pub(super) struct Heads {
    interim: VecDeque<(u16, Head)>,
    last: Option<(u16, Head)>,
}

/// A head that is encoded, and everything that it depends on.
struct Encoding {
    /// Its fields. The reference keeps their address, by which encodings are found, from being used again.
    head: SharedHead,
    /// Second of its date, since 1970.
    second: u64,
    frame: EncodedHeaders,
}

impl Heads {
    pub(super) fn of_last(status: u16, head: Head) -> Heads {
        let mut heads = Heads::default();
        heads.set_last(status, head);
        heads
    }

    pub(super) fn push_interim(&mut self, status: u16, fields: Fields) {
        let head = Head::Lines(lines(status, fields));
        self.interim.push_back((status, head));
    }

    pub(super) fn set_last(&mut self, status: u16, head: Head) {
        self.last = Some((status, head));
    }

    /// Returns the head that is to be sent next.
    pub(super) fn first(&self) -> Option<(u16, &Head)> {
        let first = self.interim.front().or(self.last.as_ref());
        first.map(|(status, head)| (*status, head))
    }

    pub(super) fn remove_first(&mut self) {
        if self.interim.pop_front().is_none() {
            self.last = None;
        }
    }
}

impl Head {
    pub(super) fn of_reply(status: u16, fields: ReplyFields, length: u64) -> Head {
        match fields {
            ReplyFields::Own(fields) => Head::of(status, fields, Some(length)),
            ReplyFields::Shared(fields) => Head::Shared(SharedHead { fields, status, length }),
        }
    }

    /// Returns a final head with the server's own fields, and with the length if it is known.
    pub(super) fn of(status: u16, fields: Fields, length: Option<u64>) -> Head {
        Head::Lines(frame(status, fields, length))
    }

    /// Returns the length of the encoded head, at most, bytes.
    pub(super) fn longest(&self) -> usize {
        let line = |name: usize, value: usize| name + value + LINE;
        match self {
            Head::Lines(lines) => {
                lines.iter().map(|field| line(field.name().len(), field.value().len())).sum()
            }
            Head::Shared(head) => { head.fields.iter() }
                .map(|(name, value)| line(name.as_str().len(), value.len()))
                .sum::<usize>()
                .saturating_add(ADDED),
        }
    }

    /// Sends the head; `first` tells whether the stream has sent none, `last` whether nothing follows.
    ///
    /// # Errors
    /// The stream has no room for the whole head, or is gone.
    pub(super) fn send(
        &self,
        to: &mut WriteContext<'_>,
        first: bool,
        last: bool,
    ) -> Result<(), Error> {
        let (conn, stream) = (&mut *to.conn, to.stream);
        let priority = to.priority.into();
        match self {
            Head::Shared(head) => head.with_frame(|frame| {
                to.h3.send_encoded_response(conn, stream, frame, &priority, last)
            }),
            Head::Lines(lines) if first => {
                to.h3.send_response_with_priority(conn, stream, lines, &priority, last)
            }
            Head::Lines(lines) => to.h3.send_additional_headers(conn, stream, lines, false, last),
        }
    }
}

impl SharedHead {
    /// Lends the head's frame, which is encoded only if it was not in this second.
    fn with_frame<T>(
        &self,
        using: impl FnOnce(&EncodedHeaders) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let second = sluicegate_base::clock::unix().as_secs();
        ENCODED.with_borrow_mut(|places| {
            let place = &mut places[(Arc::as_ptr(&self.fields).addr() / 32) % KEPT];
            if place.as_ref().is_some_and(|known| known.second != second || known.head != *self) {
                *place = None;
            }
            let known = match place {
                Some(known) => known,
                None => place.insert(Encoding {
                    head: self.clone(),
                    second,
                    frame: EncodedHeaders::new(&frame(
                        self.status,
                        self.fields.to_vec(),
                        Some(self.length),
                    ))?,
                }),
            };
            using(&known.frame)
        })
    }
}

impl PartialEq for SharedHead {
    fn eq(&self, other: &SharedHead) -> bool {
        Arc::ptr_eq(&self.fields, &other.fields)
            && (self.status, self.length) == (other.status, other.length)
    }
}

impl NameValue for Line {
    fn name(&self) -> &[u8] {
        match self {
            Line::Status(_) => b":status",
            Line::Field(name, _) => name.as_str().as_bytes(),
        }
    }

    fn value(&self) -> &[u8] {
        match self {
            Line::Status(text) => text,
            Line::Field(_, value) => value.as_bytes(),
        }
    }
}

pub(super) fn fields(fields: Fields) -> impl Iterator<Item = Line> {
    fields.into_iter().map(|(name, value)| Line::Field(name, value))
}

fn lines(status: u16, of: Fields) -> Vec<Line> {
    let mut head = Vec::with_capacity(of.len() + 4);
    head.push(Line::Status(digits(status)));
    head.extend(fields(of));
    head
}

/// Returns the digits of a status, which has three.
fn digits(status: u16) -> [u8; 3] {
    [status / 100, status / 10, status].map(|digits| b"0123456789"[usize::from(digits % 10)])
}

fn frame(status: u16, mut fields: Fields, length: Option<u64>) -> Vec<Line> {
    let has = |wanted| fields.iter().any(|(name, _)| *name == wanted);
    let (has_server, has_date) = (has(SERVER), has(DATE));
    if has_server {
        fields.retain(|line| *line != NO_SERVER);
    }
    let mut head = lines(status, fields);
    if !has_server {
        head.push(Line::Field(SERVER, HeaderValue::from_static("sluicegate")));
    }
    // RFC 9110 §6.6.1
    if !has_date {
        head.push(Line::Field(DATE, date::at(sluicegate_base::clock::unix())));
    }
    // RFC 9110 §8.6: not with 204; with 304 it would be the length of a body that is not known here.
    if let Some(length) = length
        && has_content(status)
    {
        head.push(Line::Field(CONTENT_LENGTH, length.into()));
    }
    head
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::ETAG;

    use super::*;

    fn encoded(status: u16, fields: &Arc<Fields>, length: u64) -> EncodedHeaders {
        let fields = Arc::clone(fields);
        let head = SharedHead { fields, status, length };
        head.with_frame(|frame| Ok(frame.clone())).unwrap()
    }

    #[test]
    fn replies_that_share_their_fields_share_their_encoding() {
        let fields = || Arc::new(vec![(ETAG, HeaderValue::from_static("\"x\""))]);
        let (one, other) = (fields(), fields());
        let kept = || ENCODED.with_borrow(|places| places.iter().flatten().count());
        let first = encoded(200, &one, 10);
        // The date may change once between the two, not twice.
        let repeated = (0..3).filter(|_| encoded(200, &one, 10) == first).count();
        assert!(repeated > 0 && kept() == 1);
        assert_ne!(encoded(200, &one, 11), first);
        assert_ne!(encoded(206, &one, 11), encoded(200, &one, 11));
        assert_eq!(kept(), 1);
        encoded(200, &other, 10);
        assert!(kept() <= 2);
    }
}
