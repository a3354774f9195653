//! Splits a file into records.

use std::io::{self, BufRead};

/// Longest record, bytes; what is longer is skipped. No writer comes near it.
pub const MAX_RECORD: usize = 1 << 20;

/// First byte of a record in a JSON text sequence (RFC 7464).
pub(super) const RECORD_SEPARATOR: u8 = 0x1e;

/// What stands between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    /// The record separator of RFC 7464, before each.
    Rs,
    /// A line feed, after each.
    Line,
}

/// How a record was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadRecord {
    /// Whether only its first [`MAX_RECORD`] bytes are there.
    pub(super) is_too_long: bool,
    /// Whether it ends by a separator or a line feed, not by the end of the file.
    pub(super) has_separator: bool,
}

/// The records of a file.
#[derive(Debug)]
pub(super) struct Records<R> {
    input: R,
    separator: Separator,
    /// Whether the rest of a record that was too long is to be skipped.
    skipping: bool,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(input: R, separator: Separator) -> Records<R> {
        Records { input, separator, skipping: false }
    }

    /// Reads the next record into `record`. That of a too long one is its beginning; the next call skips the rest.
    pub(super) fn next(&mut self, record: &mut Vec<u8>) -> io::Result<Option<ReadRecord>> {
        record.clear();
        if std::mem::take(&mut self.skipping) {
            self.skip()?;
        }
        let end = match self.separator {
            Separator::Rs => RECORD_SEPARATOR,
            Separator::Line => b'\n',
        };
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                let ended = record.last() == Some(&b'\n');
                let read = ReadRecord { is_too_long: false, has_separator: ended };
                return Ok((!record.is_empty()).then_some(read));
            }
            let place = buffer.iter().position(|byte| *byte == end);
            let piece = &buffer[..place.unwrap_or(buffer.len())];
            let room = MAX_RECORD - record.len();
            if piece.len() > room {
                record.extend_from_slice(&piece[..room]);
                self.input.consume(room);
                self.skipping = true;
                return Ok(Some(ReadRecord { is_too_long: true, has_separator: false }));
            }
            record.extend_from_slice(piece);
            let used = piece.len() + usize::from(place.is_some());
            self.input.consume(used);
            // Nothing stands before the first separator.
            if place.is_some() && !(record.is_empty() && self.separator == Separator::Rs) {
                return Ok(Some(ReadRecord { is_too_long: false, has_separator: true }));
            }
        }
    }

    fn skip(&mut self) -> io::Result<()> {
        let end = match self.separator {
            Separator::Rs => RECORD_SEPARATOR,
            Separator::Line => b'\n',
        };
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Ok(());
            }
            let place = buffer.iter().position(|byte| *byte == end);
            let used = place.map_or(buffer.len(), |place| place + 1);
            self.input.consume(used);
            if place.is_some() {
                return Ok(());
            }
        }
    }

    /// Returns the input behind the last record, and behind as much of a too long one as was read.
    pub(super) fn into_inner(self) -> R {
        self.input
    }
}
