//! Decodes bodies of responses (RFC 9112 §6 and §7) out of the buffer that they were read into.

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use httparse::{EMPTY_HEADER, Status};

use crate::proxy::protocol::BrokenBody;
use crate::proxy::response::BodySize;

/// Largest number of field lines in a section, head or trailers.
pub(super) const MAX_LINES: usize = 100;
/// Largest sum of all chunk extensions of a body, bytes.
const MAX_EXTENSIONS: u64 = 16 << 10;
/// Most zeros in front of the size of a chunk and white space behind it, bytes. Some servers write all sizes equally long.
const MAX_PADDING: u32 = 64;

/// Rest of a response's body.
#[derive(Debug)]
pub(super) enum Body {
    /// So many bytes.
    Length(u64),
    Chunked(Chunked),
    /// All bytes until the upstream closes the connection.
    UntilClose,
}

/// Next part of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Data(Bytes),
    /// Trailers, behind which the body ends.
    Trailers(HeaderMap),
    End,
    /// More bytes have to be read.
    Missing,
}

impl Body {
    /// Takes the next part from the buffer.
    ///
    /// # Errors
    /// The body violates its framing.
    pub(super) fn next(&mut self, buffer: &mut BytesMut) -> Result<Part, BrokenBody> {
        match self {
            Body::Length(0) => Ok(Part::End),
            Body::Length(left) => Ok(take(buffer, left)),
            Body::Chunked(chunked) => chunked.next(buffer),
            Body::UntilClose => {
                let mut all = u64::MAX;
                Ok(take(buffer, &mut all))
            }
        }
    }

    /// Returns whether nothing is missing.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Body::Length(left) => *left == 0,
            Body::Chunked(chunked) => chunked.state == State::End,
            Body::UntilClose => false,
        }
    }

    /// Returns whether the end of the connection is the end of the body.
    pub(super) fn ends_with_connection(&self) -> bool {
        matches!(self, Body::UntilClose)
    }

    pub(super) fn size(&self) -> BodySize {
        let length = match self {
            Body::Length(left) => Some(*left),
            Body::Chunked(_) | Body::UntilClose => None,
        };
        BodySize { length, is_end: self.is_complete() }
    }
}

/// Takes what is there of `left` bytes.
fn take(buffer: &mut BytesMut, left: &mut u64) -> Part {
    if buffer.is_empty() {
        return Part::Missing;
    }
    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
    *left -= length as u64;
    Part::Data(buffer.split_to(length).freeze())
}

/// Decoder of the chunked coding (RFC 9112 §7.1).
#[derive(Debug)]
pub(super) struct Chunked {
    state: State,
    /// Size of the chunk, as far as it is read; then its bytes that are missing.
    left: u64,
    /// Bytes of chunk extensions so far.
    extensions: u64,
    /// Zeros in front of the size of this chunk, and white space behind it.
    padding: u32,
    trailers: Trailers,
}

/// Place in the chunked coding, by what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    FirstDigit,
    Digit,
    /// White space behind the size.
    Space,
    Extension,
    /// Line feed behind the size.
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailers,
    End,
}

impl Chunked {
    /// The chunked coding from its start, with a trailer section of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Chunked {
        Chunked {
            state: State::FirstDigit,
            left: 0,
            extensions: 0,
            padding: 0,
            trailers: Trailers { limit, seen: 0, lines: 0, next: Next::Line },
        }
    }

    fn next(&mut self, buffer: &mut BytesMut) -> Result<Part, BrokenBody> {
        let mut framing = 0;
        while !matches!(self.state, State::Data | State::Trailers | State::End) {
            let Some(byte) = buffer.get(framing) else {
                break;
            };
            framing += 1;
            self.state = self.after(*byte)?;
        }
        buffer.advance(framing);
        match self.state {
            State::Data => {
                let part = take(buffer, &mut self.left);
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                Ok(part)
            }
            State::Trailers => {
                let part = self.trailers.next(buffer)?;
                if part != Part::Missing {
                    self.state = State::End;
                }
                Ok(part)
            }
            State::End => Ok(Part::End),
            _ => Ok(Part::Missing),
        }
    }

    /// Returns the state after a byte that is neither of a chunk's data nor of the trailers.
    fn after(&mut self, byte: u8) -> Result<State, BrokenBody> {
        Ok(match (self.state, byte) {
            (State::FirstDigit | State::Digit, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if self.state == State::Digit && self.left == 0 {
                    self.pad()?;
                }
                let digit = char::from(byte).to_digit(16).ok_or(BrokenBody)?;
                let size = self.left.checked_mul(16);
                let size = size.and_then(|size| size.checked_add(digit.into()));
                self.left = size.ok_or(BrokenBody)?;
                State::Digit
            }
            (State::Digit | State::Space, b'\t' | b' ') => {
                self.pad()?;
                State::Space
            }
            (State::Digit | State::Space, b';') => State::Extension,
            (State::Digit | State::Space | State::Extension, b'\r') => State::SizeLf,
            // Some end a line by LF alone, and would see another chunk.
            (State::Extension, b'\n') => return Err(BrokenBody),
            (State::Extension, _) => {
                self.extensions += 1;
                if self.extensions >= MAX_EXTENSIONS {
                    return Err(BrokenBody);
                }
                State::Extension
            }
            (State::SizeLf, b'\n') if self.left == 0 => State::Trailers,
            (State::SizeLf, b'\n') => State::Data,
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => {
                self.padding = 0;
                State::FirstDigit
            }
            _ => return Err(BrokenBody),
        })
    }

    /// Counts a byte that says nothing.
    fn pad(&mut self) -> Result<(), BrokenBody> {
        self.padding += 1;
        if self.padding > MAX_PADDING { Err(BrokenBody) } else { Ok(()) }
    }
}

/// Trailer section, which stays in the buffer until it is complete.
#[derive(Debug)]
struct Trailers {
    /// Largest section, bytes.
    limit: usize,
    /// Bytes of the section in the buffer that were looked at.
    seen: usize,
    lines: usize,
    next: Next,
}

/// Place in the trailer section, by what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Line, or the end of the section.
    Line,
    /// Rest of a line.
    Rest,
    /// Line feed of a line.
    Lf,
    /// Line feed of the end.
    LastLf,
}

impl Trailers {
    fn next(&mut self, buffer: &mut BytesMut) -> Result<Part, BrokenBody> {
        while let Some(byte) = buffer.get(self.seen) {
            self.seen += 1;
            self.next = match (self.next, byte) {
                (Next::Line, b'\r') => Next::LastLf,
                (Next::Rest, b'\r') => Next::Lf,
                (Next::Line | Next::Rest, _) => Next::Rest,
                (Next::Lf, b'\n') if self.lines < MAX_LINES => {
                    self.lines += 1;
                    Next::Line
                }
                (Next::LastLf, b'\n') if self.lines == 0 => {
                    buffer.advance(self.seen);
                    return Ok(Part::End);
                }
                (Next::LastLf, b'\n') if self.seen < self.limit => {
                    let section = buffer.split_to(self.seen);
                    return parse(&section, self.lines).map(Part::Trailers);
                }
                _ => return Err(BrokenBody),
            };
            if self.seen >= self.limit {
                return Err(BrokenBody);
            }
        }
        Ok(Part::Missing)
    }
}

/// Parses a whole trailer section of so many lines.
fn parse(section: &[u8], lines: usize) -> Result<HeaderMap, BrokenBody> {
    let mut parsed = [EMPTY_HEADER; MAX_LINES];
    let parsed = match httparse::parse_headers(section, &mut parsed[..lines]) {
        Ok(Status::Complete((_, parsed))) => parsed,
        Ok(Status::Partial) | Err(_) => return Err(BrokenBody),
    };
    let mut trailers = HeaderMap::with_capacity(lines);
    for line in parsed {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| BrokenBody)?;
        let value = HeaderValue::from_bytes(line.value).map_err(|_| BrokenBody)?;
        trailers.append(name, value);
    }
    Ok(trailers)
}
