//! Frames of HTTP/2 (RFC 9113 §4.1) in a stream of bytes: h2 reports neither the resets nor the responses that it sends itself.

/// Length of a frame's header, bytes.
const HEADER: usize = 9;
/// Bytes with which a client begins (RFC 9113 §3.4).
const PREFACE: usize = 24;

/// Types of frames.
pub(super) const HEADERS: u8 = 0x1;
pub(super) const RST_STREAM: u8 = 0x3;
pub(super) const GOAWAY: u8 = 0x7;
pub(super) const CONTINUATION: u8 = 0x9;
/// Flag of a frame that ends its side of the stream.
pub(super) const END_STREAM: u8 = 0x1;
/// Flag of a frame that ends a header block.
pub(super) const END_HEADERS: u8 = 0x4;

/// A frame that is there in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    /// First bytes of what it contains; zero where it is shorter.
    start: [u8; 8],
}

impl Frame {
    /// Returns the code of RST_STREAM, or the last stream of GOAWAY.
    pub(super) fn first_word(&self) -> u32 {
        let [a, b, c, d, ..] = self.start;
        u32::from_be_bytes([a, b, c, d])
    }

    /// Returns the code of GOAWAY.
    pub(super) fn second_word(&self) -> u32 {
        let [.., a, b, c, d] = self.start;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// Reads the headers of frames, and skips what they contain.
#[derive(Debug, Default)]
pub(super) struct FrameReader {
    /// Bytes before the first frame that have not arrived.
    preface: usize,
    header: [u8; HEADER],
    /// Bytes of the header that have arrived.
    known: usize,
    /// Bytes of the contents that have not.
    left: usize,
    start: [u8; 8],
    start_known: usize,
}

impl FrameReader {
    /// Returns a reader of what a client sends.
    pub(super) fn of_client() -> FrameReader {
        FrameReader { preface: PREFACE, ..FrameReader::default() }
    }

    /// Reads the bytes that follow those before, and passes each frame whose last byte is among them.
    pub(super) fn read(&mut self, mut bytes: &[u8], mut on_frame: impl FnMut(Frame)) {
        let preface = bytes.len().min(self.preface);
        self.preface -= preface;
        bytes = &bytes[preface..];
        while !bytes.is_empty() {
            if self.known < HEADER {
                let (taken, rest) = bytes.split_at(bytes.len().min(HEADER - self.known));
                self.header[self.known..][..taken.len()].copy_from_slice(taken);
                self.known += taken.len();
                bytes = rest;
                if self.known == HEADER {
                    let [a, b, c, ..] = self.header;
                    self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                }
            } else {
                let (taken, rest) = bytes.split_at(bytes.len().min(self.left));
                self.keep_start(taken);
                self.left -= taken.len();
                bytes = rest;
            }
            if self.known == HEADER && self.left == 0 {
                on_frame(self.take());
            }
        }
    }

    fn keep_start(&mut self, bytes: &[u8]) {
        let room = &mut self.start[self.start_known..];
        let kept = room.len().min(bytes.len());
        room[..kept].copy_from_slice(&bytes[..kept]);
        self.start_known += kept;
    }

    fn take(&mut self) -> Frame {
        let [_, _, _, kind, flags, a, b, c, d] = self.header;
        (self.known, self.start_known) = (0, 0);
        Frame {
            kind,
            flags,
            // The first bit is reserved.
            stream: u32::from_be_bytes([a, b, c, d]) & (u32::MAX >> 1),
            start: std::mem::take(&mut self.start),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a frame as it is sent.
    pub(in super::super) fn frame(kind: u8, flags: u8, stream: u32, contents: &[u8]) -> Vec<u8> {
        let length = u32::try_from(contents.len()).unwrap().to_be_bytes();
        let header = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        [&header, contents].concat()
    }

    #[test]
    fn frames_are_read_however_their_bytes_come() {
        let reset = 8_u32.to_be_bytes();
        let away = [5_u32.to_be_bytes(), 11_u32.to_be_bytes()].concat();
        let bytes = [
            vec![b'x'; PREFACE],
            frame(4, 0, 0, &[]),
            frame(HEADERS, END_HEADERS, 1, &[0x82; 300]),
            frame(RST_STREAM, 0, 1 << 31 | 3, &reset),
            frame(GOAWAY, 0, 0, &[&away[..], b"reason"].concat()),
        ]
        .concat();
        for piece in [1, 2, 3, 7, 9, 10, 64, bytes.len()] {
            let (mut reader, mut frames) = (FrameReader::of_client(), Vec::new());
            for bytes in bytes.chunks(piece) {
                reader.read(bytes, |frame| frames.push(frame));
            }
            let seen: Vec<_> = frames.iter().map(|f| (f.kind, f.flags, f.stream)).collect();
            let expected =
                [(4, 0, 0), (HEADERS, END_HEADERS, 1), (RST_STREAM, 0, 3), (GOAWAY, 0, 0)];
            assert_eq!(seen, expected, "{piece}");
            assert_eq!(frames[2].first_word(), 8);
            assert_eq!((frames[3].first_word(), frames[3].second_word()), (5, 11));
        }
    }
}
