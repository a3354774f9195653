//! Frames of HTTP/2 (RFC 9113 §4.1) in the bytes that a server sends: hyper reports neither the sizes of header blocks nor GOAWAY.

/// Length of a frame's header, bytes.
const HEADER: usize = 9;
/// Types of frames.
const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const SETTINGS: u8 = 0x4;
const GOAWAY: u8 = 0x7;
const CONTINUATION: u8 = 0x9;

/// Kind of the first bytes that a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// SETTINGS, as it has to be (RFC 9113 §3.4).
    Settings,
    /// The status line of a response of HTTP/1.1, or 1.0.
    StatusLine,
    Other,
}

/// Reads the headers of frames, and skips what they contain.
#[derive(Debug, Default)]
pub(super) struct Frames {
    header: [u8; HEADER],
    /// Bytes of the header that have arrived.
    known: usize,
    /// Bytes of the payload that have not.
    left: usize,
    /// Stream of the last GOAWAY, and how many of its four bytes have arrived.
    last_stream: u32,
    last_stream_known: usize,
    /// Bytes of header blocks, with padding, since they were taken.
    head_bytes: u64,
    /// Bytes of responses: payloads of DATA, HEADERS and CONTINUATION.
    pub(super) content: u64,
    goaway: Option<u32>,
    /// None before a frame's header has arrived.
    pub(super) first: Option<First>,
}

impl Frames {
    /// Reads the bytes that come after those before.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.known < HEADER {
                let taken = bytes.len().min(HEADER - self.known);
                self.header[self.known..self.known + taken].copy_from_slice(&bytes[..taken]);
                self.known += taken;
                bytes = &bytes[taken..];
                if self.known == HEADER {
                    self.begin();
                }
            } else {
                let taken = bytes.len().min(self.left);
                self.skip(&bytes[..taken]);
                bytes = &bytes[taken..];
            }
            if self.known == HEADER && self.left == 0 {
                self.known = 0;
            }
        }
    }

    fn begin(&mut self) {
        self.first.get_or_insert(match self.header {
            [0, _, _, SETTINGS, ..] => First::Settings,
            header if header.starts_with(b"HTTP/1.") => First::StatusLine,
            _ => First::Other,
        });
        let [high, middle, low, kind, ..] = self.header;
        let length = u32::from_be_bytes([0, high, middle, low]);
        self.left = length as usize;
        match kind {
            HEADERS | CONTINUATION => self.head_bytes += u64::from(length),
            GOAWAY => (self.last_stream, self.last_stream_known) = (0, 0),
            _ => {}
        }
    }

    fn skip(&mut self, payload: &[u8]) {
        self.left -= payload.len();
        match self.header[3] {
            DATA | HEADERS | CONTINUATION => self.content += payload.len() as u64,
            GOAWAY => {
                for byte in payload.iter().take(4 - self.last_stream_known) {
                    self.last_stream = self.last_stream << 8 | u32::from(*byte);
                    self.last_stream_known += 1;
                }
                if self.last_stream_known == 4 {
                    // The first bit is reserved.
                    self.goaway = Some(self.last_stream & (u32::MAX >> 1));
                }
            }
            _ => {}
        }
    }

    /// Returns the bytes of header blocks since the last call.
    pub(super) fn take_head_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.head_bytes)
    }

    /// Returns the last stream that the server processes, if it has sent GOAWAY since the last call.
    pub(super) fn take_goaway(&mut self) -> Option<u32> {
        self.goaway.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let header = [length[1], length[2], length[3], kind, 0, 0, 0, 0, 1];
        [&header[..], payload].concat()
    }

    /// SETTINGS without and with a payload, a header block in two frames, a body, GOAWAY, and another header block.
    fn stream() -> Vec<u8> {
        [
            frame(4, b""),
            frame(4, &[0; 6]),
            frame(HEADERS, &[1; 300]),
            frame(CONTINUATION, &[1; 20]),
            frame(DATA, &[7; 70_000]),
            frame(GOAWAY, &[0x80, 0, 1, 5, 0, 0, 0, 0, b'x']),
            frame(HEADERS, &[1; 2]),
        ]
        .concat()
    }

    #[test]
    fn sizes_and_goaway_are_found_wherever_reads_end() {
        let bytes = stream();
        for size in [1, 2, 3, 7, 9, 10, 4096, bytes.len()] {
            let mut frames = Frames::default();
            bytes.chunks(size).for_each(|part| frames.read(part));
            assert_eq!(frames.take_head_bytes(), 322, "{size}");
            assert_eq!(frames.content, 70_322, "{size}");
            assert_eq!(frames.take_goaway(), Some(0x105), "{size}");
            assert_eq!((frames.take_head_bytes(), frames.take_goaway()), (0, None));
        }
    }

    #[test]
    fn other_protocols_begin_without_settings() {
        for (bytes, expected) in [
            (&stream()[..], Some(First::Settings)),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", Some(First::StatusLine)),
            (b"HTTP/1.0 400 \r\n\r\n", Some(First::StatusLine)),
            (b"220 mail.example ESMTP\r\n", Some(First::Other)),
            (b"HTTP/1.1", None),
        ] {
            let mut frames = Frames::default();
            bytes.chunks(4).for_each(|part| frames.read(part));
            assert_eq!(frames.first, expected);
        }
    }

    #[test]
    fn a_later_goaway_replaces_the_first() {
        let mut frames = Frames::default();
        frames.read(&frame(GOAWAY, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]));
        assert_eq!(frames.take_goaway(), Some(u32::MAX >> 1));
        frames.read(&frame(GOAWAY, &[0, 0, 0, 3, 0, 0, 0, 0]));
        assert_eq!(frames.take_goaway(), Some(3));
    }
}
