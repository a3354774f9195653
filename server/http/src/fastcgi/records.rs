//! Records of FastCGI (FastCGI 1.0 §3.3): writes those of a request, and reads those of its response. No I/O.

use bytes::{BufMut as _, Bytes, BytesMut};

const VERSION: u8 = 1;
/// Number of the request on its connection, which has no other.
const REQUEST: u16 = 1;
const HEADER: usize = 8;
/// Largest content of a record that this side writes, bytes: a multiple of eight, so that it needs no padding.
const MAX_CONTENT: usize = 65_528;
/// Content of a record that begins a request: the role of a responder, on a connection that closes after the response.
const RESPONDER: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// Appends the records in front of a request's body: `params` are pairs of [`push_pair`].
pub(super) fn begin(params: &[u8], out: &mut BytesMut) {
    record(BEGIN_REQUEST, &RESPONDER, out);
    stream(PARAMS, params, out);
    record(PARAMS, &[], out);
}

/// Appends a part of a request's body.
pub(super) fn body(part: &[u8], out: &mut BytesMut) {
    stream(STDIN, part, out);
}

/// Appends the end of a request's body.
pub(super) fn end_of_body(out: &mut BytesMut) {
    record(STDIN, &[], out);
}

/// Appends a parameter (FastCGI 1.0 §3.4).
pub(super) fn push_pair(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    push_length(name.len(), out);
    push_length(value.len(), out);
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

fn push_length(length: usize, out: &mut Vec<u8>) {
    match u8::try_from(length) {
        Ok(short @ 0..=127) => out.push(short),
        _ => {
            // A request's head is much shorter than that.
            let long = u32::try_from(length).unwrap_or(u32::MAX);
            out.extend_from_slice(&(long | 1 << 31).to_be_bytes());
        }
    }
}

/// Appends records with the content; none without any, because an empty record ends a stream.
fn stream(kind: u8, content: &[u8], out: &mut BytesMut) {
    for part in content.chunks(MAX_CONTENT) {
        record(kind, part, out);
    }
}

fn record(kind: u8, content: &[u8], out: &mut BytesMut) {
    debug_assert!(content.len() <= MAX_CONTENT);
    out.reserve(HEADER + content.len());
    out.put_u8(VERSION);
    out.put_u8(kind);
    out.put_u16(REQUEST);
    out.put_u16(u16::try_from(content.len()).unwrap_or_default());
    out.put_u16(0);
    out.put_slice(content);
}

/// Parts of a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Bytes of the standard output.
    Output(Bytes),
    /// Bytes of the standard error.
    Error(Bytes),
    /// End of the standard output, and so of what the client gets (FastCGI 1.0 §3.3). Messages may follow.
    OutputEnd,
    /// End of the response.
    End(Status),
}

/// Status with which a response ends (FastCGI 1.0 §5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Complete,
    /// The server is overloaded, or does not serve the role.
    Refused,
}

/// Error of bytes that are no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Reads the records of one response. It keeps no content, and at most eight bytes.
#[derive(Debug)]
pub(super) struct Decoder {
    state: State,
    output_ended: bool,
}

#[derive(Debug)]
enum State {
    Header(Eight),
    /// Bytes of content, and of the padding behind it, that are still to come.
    Content {
        is_error: bool,
        left: u16,
        padding: u16,
    },
    /// Bytes of padding that are still to come.
    Padding(u16),
    /// Content of the last record.
    End(Eight),
    Ended,
}

impl Decoder {
    pub(super) fn new() -> Decoder {
        Decoder { state: State::Header(Eight::default()), output_ended: false }
    }

    /// Takes the next part from the front of `input`, without waiting for the rest of its record. Takes all of `input` if it returns
    /// `None`.
    ///
    /// # Errors
    /// The bytes are no response to a request on a connection of its own.
    pub(super) fn next(&mut self, input: &mut Bytes) -> Result<Option<Event>, Malformed> {
        loop {
            match &mut self.state {
                State::Header(header) => {
                    let Some(header) = header.fill(input) else {
                        return Ok(None);
                    };
                    let had_ended = self.output_ended;
                    self.state = self.after(header)?;
                    if self.output_ended && !had_ended {
                        return Ok(Some(Event::OutputEnd));
                    }
                }
                State::Content { left: 0, padding, .. } => self.state = State::Padding(*padding),
                State::Content { is_error, left, .. } => {
                    let Some(part) = take(input, left) else {
                        return Ok(None);
                    };
                    return Ok(Some(if *is_error {
                        Event::Error(part)
                    } else {
                        Event::Output(part)
                    }));
                }
                State::Padding(0) => self.state = State::Header(Eight::default()),
                State::Padding(left) => {
                    if take(input, left).is_none() {
                        return Ok(None);
                    }
                }
                State::End(content) => {
                    let Some(content) = content.fill(input) else {
                        return Ok(None);
                    };
                    self.state = State::Ended;
                    return Ok(Some(Event::End(match content[4] {
                        0 => Status::Complete,
                        _ => Status::Refused,
                    })));
                }
                State::Ended => {
                    input.clear();
                    return Ok(None);
                }
            }
        }
    }

    /// Returns the state behind the header of a record.
    fn after(&mut self, header: [u8; 8]) -> Result<State, Malformed> {
        let [version, kind, request_high, request_low, high, low, padding, _] = header;
        let length = u16::from_be_bytes([high, low]);
        if version != VERSION || u16::from_be_bytes([request_high, request_low]) != REQUEST {
            return Err(Malformed);
        }
        match kind {
            STDOUT if length > 0 && self.output_ended => return Err(Malformed),
            STDOUT => self.output_ended = length == 0,
            STDERR => {}
            END_REQUEST if length == 8 => return Ok(State::End(Eight::default())),
            _ => return Err(Malformed),
        }
        Ok(State::Content { is_error: kind == STDERR, left: length, padding: padding.into() })
    }
}

/// Takes what there is of the bytes that are still to come; `None` if there is nothing.
fn take(input: &mut Bytes, left: &mut u16) -> Option<Bytes> {
    if input.is_empty() {
        return None;
    }
    let part = input.split_to(input.len().min(usize::from(*left)));
    *left -= u16::try_from(part.len()).unwrap_or(*left);
    Some(part)
}

/// Eight bytes, which may arrive one by one.
#[derive(Clone, Copy, Debug, Default)]
struct Eight {
    bytes: [u8; 8],
    filled: usize,
}

impl Eight {
    /// Takes what is missing from the front of `input`, and returns the bytes if none is missing any more.
    fn fill(&mut self, input: &mut Bytes) -> Option<[u8; 8]> {
        let missing = &mut self.bytes[self.filled..];
        let part = input.split_to(input.len().min(missing.len()));
        missing[..part.len()].copy_from_slice(&part);
        self.filled += part.len();
        (self.filled == self.bytes.len()).then_some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a record of a response.
    fn of(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
        let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
        let header = [VERSION, kind, 0, 1, high, low, padding, 0];
        let padding = vec![0xff; usize::from(padding)];
        [&header[..], content, &padding].concat()
    }

    /// Output, messages and ends of a response.
    type Decoded = (Vec<u8>, Vec<u8>, Vec<Event>);

    /// Decodes input that arrives in pieces of `size`; joins the parts of each stream.
    fn decode(input: &[u8], size: usize) -> Result<Decoded, Malformed> {
        let (mut decoder, mut output, mut error, mut ends) =
            (Decoder::new(), vec![], vec![], vec![]);
        for piece in input.chunks(size) {
            let mut piece = Bytes::copy_from_slice(piece);
            while let Some(event) = decoder.next(&mut piece)? {
                match event {
                    Event::Output(part) => output.extend_from_slice(&part),
                    Event::Error(part) => error.extend_from_slice(&part),
                    end => ends.push(end),
                }
            }
            assert!(piece.is_empty());
        }
        Ok((output, error, ends))
    }

    #[test]
    fn streams_are_told_apart_however_the_bytes_arrive() {
        let all = [
            of(STDOUT, b"Status: 200\r\n", 3),
            of(STDERR, b"PHP ", 4),
            of(STDOUT, b"\r\nbody", 0),
            of(STDERR, b"Warning", 1),
            of(STDERR, b"", 0),
            of(STDOUT, b"", 8),
            of(END_REQUEST, &[0, 0, 0, 9, 0, 0, 0, 0], 0),
            b"whatever follows".to_vec(),
        ]
        .concat();
        let expected = (
            b"Status: 200\r\n\r\nbody".to_vec(),
            b"PHP Warning".to_vec(),
            vec![Event::OutputEnd, Event::End(Status::Complete)],
        );
        for size in 1..=all.len() {
            assert_eq!(decode(&all, size).as_ref(), Ok(&expected), "{size}");
        }
        let refused = of(END_REQUEST, &[0, 0, 0, 0, 2, 0, 0, 0], 0);
        assert_eq!(decode(&refused, 3).unwrap().2, [Event::End(Status::Refused)]);
    }

    #[test]
    fn what_no_response_has_is_malformed() {
        let end = |length: usize| of(END_REQUEST, &vec![0; length], 0);
        for (bytes, name) in [
            (b"HTTP/1.1 502 Bad Gateway\r\n\r\n".to_vec(), "HTTP"),
            ([0, STDOUT, 0, 1, 0, 0, 0, 0].to_vec(), "version"),
            ([1, STDOUT, 0, 2, 0, 0, 0, 0].to_vec(), "another request"),
            ([1, STDOUT, 0, 0, 0, 0, 0, 0].to_vec(), "management"),
            (of(STDIN, b"", 0), "input"),
            (of(11, &[0; 8], 0), "unknown type"),
            (end(7), "short end"),
            (end(9), "long end"),
            ([of(STDOUT, b"", 0), of(STDOUT, b"x", 0)].concat(), "output behind its end"),
        ] {
            assert_eq!(decode(&bytes, 5), Err(Malformed), "{name}");
        }
    }

    /// Whatever a server sends, the decoder takes all of it or refuses it, and makes nothing up.
    #[test]
    fn any_bytes_are_decoded_or_refused() {
        let seed = 0x5eed_u64;
        println!("seed {seed}");
        let mut random = seed;
        let mut next = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33).to_le_bytes()[0]
        };
        for _ in 0..20_000 {
            // Half of the headers are valid up to their type.
            let length = usize::from(next());
            let mut bytes: Vec<u8> = (0..length).map(|_| next() % 9).collect();
            if next() % 2 == 0 && length > 8 {
                bytes[..4].copy_from_slice(&[VERSION, next() % 8, 0, 1]);
                bytes[4] = 0;
            }
            let size = usize::from(next() % 16) + 1;
            if let Ok((output, error, _)) = decode(&bytes, size) {
                assert!(output.len() + error.len() <= bytes.len());
                assert_eq!(decode(&bytes, bytes.len().max(1)).unwrap().0, output);
            }
        }
    }

    #[test]
    fn a_request_is_framed_as_the_specification_says() {
        let mut out = BytesMut::new();
        let mut params = Vec::new();
        push_pair(b"A", b"b", &mut params);
        push_pair(b"LONG", &[b'x'; 128], &mut params);
        assert_eq!(params[..9], [1, 1, b'A', b'b', 4, 0x80, 0, 0, 128]);
        begin(&params, &mut out);
        body(b"in", &mut out);
        body(b"", &mut out);
        end_of_body(&mut out);
        let [high, low] = u16::try_from(params.len()).unwrap().to_be_bytes();
        let expected = [
            &[1, 1, 0, 1, 0, 8, 0, 0][..],
            &[0, 1, 0, 0, 0, 0, 0, 0],
            &[1, 4, 0, 1, high, low, 0, 0],
            &params,
            &[1, 4, 0, 1, 0, 0, 0, 0],
            &[1, 5, 0, 1, 0, 2, 0, 0],
            b"in",
            &[1, 5, 0, 1, 0, 0, 0, 0],
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn long_bodies_take_several_records() {
        let mut out = BytesMut::new();
        body(&vec![7; MAX_CONTENT + 1], &mut out);
        assert_eq!(out.len(), 2 * HEADER + MAX_CONTENT + 1);
        assert_eq!(out[..HEADER], [1, 5, 0, 1, 0xff, 0xf8, 0, 0]);
        assert_eq!(out[HEADER + MAX_CONTENT..][..HEADER], [1, 5, 0, 1, 0, 1, 0, 0]);
    }
}
