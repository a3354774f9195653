//! Reads traces of every format, one event at a time, in bounded memory.
//!
//! | format | who writes it |
//! |---|---|
//! | JSON text sequences (`.sqlog`) | Sluicegate, quiche, quic-go, ngtcp2 |
//! | a record a line (NDJSON) | earlier versions of these |
//! | one object with `traces[].events[]` (`.qlog`) | aioquic, mvfst, picoquic, converted traces |
//!
//! Each may be compressed by gzip. A record that is no event is skipped and counted; so is one longer than [`MAX_RECORD`].

mod bounded;
mod contained;
mod contract;
mod records;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use serde::de::{DeserializeSeed, IgnoredAny};

use contained::{Budgeted, Delivery, TopLevel};
use records::{RECORD_SEPARATOR, Records, Separator};

pub(crate) use bounded::Budget;
pub use contained::MAX_BETWEEN_EVENTS;
pub use contract::{Parts, ReadError, ReadTally, Sink, TraceHeader};
pub use records::MAX_RECORD;

/// Reads a file, compressed or not.
///
/// # Errors
/// The file cannot be read, or is no trace.
pub fn open(path: &Path, sink: &mut impl Sink) -> Result<ReadTally, ReadError> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(ReadError::NotATrace("a folder; `sluicegate qlog top` reads those"));
    }
    read(file, sink)
}

/// Reads a trace, compressed or not.
///
/// # Errors
/// It cannot be read, or is no trace.
pub fn read(input: impl Read, sink: &mut impl Sink) -> Result<ReadTally, ReadError> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let is_gzip = input.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    if is_gzip {
        let inflated = MultiGzDecoder::new(input);
        let result = read_text(BufReader::with_capacity(1 << 16, inflated), sink);
        result.map_err(|error| match error {
            ReadError::Io(error) if is_damage(&error) => {
                ReadError::NotATrace("its gzip data is damaged from the beginning")
            }
            error => error,
        })
    } else {
        read_text(input, sink)
    }
}

/// Returns whether an error is that of compressed data.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};

    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// Returns the first byte that is neither space nor a byte order mark, without consuming it.
fn first_byte(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let buffer = input.fill_buf()?;
        let is_blank = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0xef | 0xbb | 0xbf);
        let blank = buffer.iter().take_while(|byte| is_blank(byte)).count();
        if let Some(first) = buffer.get(blank) {
            let first = *first;
            input.consume(blank);
            return Ok(Some(first));
        }
        if blank == 0 {
            return Ok(None);
        }
        input.consume(blank);
    }
}

fn read_text<S: Sink>(mut input: impl BufRead, sink: &mut S) -> Result<ReadTally, ReadError> {
    let Some(first) = first_byte(&mut input)? else {
        return Err(ReadError::NotATrace("it is empty"));
    };
    let mut delivery = Delivery::new(sink);
    let outcome = match first {
        RECORD_SEPARATOR => read_records(Records::new(input, Separator::Rs), &mut delivery, None),
        b'{' => read_lines_or_one_object(input, &mut delivery),
        _ => return Err(ReadError::NotATrace("it does not begin with a JSON object")),
    };
    if let Err(error) = outcome {
        // A compressed file that was cut, or a disk that fails after some events.
        if delivery.tally.events == 0 {
            return Err(error.into());
        }
        delivery.tally.is_cut = error.kind() == io::ErrorKind::UnexpectedEof;
        if !delivery.tally.is_cut {
            delivery.tally.stopped = Some(error.to_string());
        }
    }
    let (tally, is_trace) = delivery.finish();
    if is_trace {
        return Ok(tally);
    }
    if tally.is_cut {
        return Err(ReadError::NotATrace(
            "it ends before its first event, in the middle of a record: its writer ended there, or still writes",
        ));
    }
    Err(ReadError::NotATrace("it is JSON, but it has no qlog header and no events"))
}

/// Reads a file that begins with an object: the whole file, or that of the first line.
fn read_lines_or_one_object<S: Sink>(
    input: impl BufRead,
    delivery: &mut Delivery<'_, S>,
) -> io::Result<()> {
    let mut records = Records::new(input, Separator::Line);
    let mut first = Vec::new();
    let read = records.next(&mut first)?;
    let is_object = match serde_json::from_slice::<IgnoredAny>(&first) {
        Ok(_) => false,
        Err(error) if error.is_eof() => true,
        // A number that is none, as Python writes NaN, somewhere in the whole.
        Err(_) => first.windows(8).any(|key| key == b"\"traces\""),
    };
    if is_object || read.is_some_and(|read| read.is_too_long) {
        let ended = if read.is_some_and(|read| read.has_separator) { &b"\n"[..] } else { b"" };
        let whole = Cursor::new(first).chain(ended).chain(records.into_inner());
        return read_object(whole, delivery);
    }
    read_records(records, delivery, Some(first))
}

fn read_object<S: Sink>(input: impl Read, delivery: &mut Delivery<'_, S>) -> io::Result<()> {
    let budget = delivery.budget();
    let input = Budgeted::new(input, budget);
    let mut json = serde_json::Deserializer::from_reader(input);
    let Err(error) = DeserializeSeed::deserialize(TopLevel(delivery), &mut json) else {
        return Ok(());
    };
    if delivery.is_done() {
        return Ok(());
    }
    if error.is_eof() {
        delivery.tally.is_cut = true;
    } else {
        delivery.tally.stopped = Some(error.to_string());
    }
    Ok(())
}

fn read_records<R: BufRead, S: Sink>(
    mut records: Records<R>,
    delivery: &mut Delivery<'_, S>,
    first: Option<Vec<u8>>,
) -> io::Result<()> {
    let mut record = first.unwrap_or_default();
    if !record.is_empty() {
        take_record(&record, true, delivery);
    }
    while !delivery.is_done() {
        let Some(read) = records.next(&mut record)? else {
            break;
        };
        if read.is_too_long {
            delivery.tally.long_records += 1;
        } else {
            take_record(&record, read.has_separator, delivery);
        }
    }
    Ok(())
}

fn take_record<S: Sink>(record: &[u8], is_ended: bool, delivery: &mut Delivery<'_, S>) {
    if record.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    let mut json = serde_json::Deserializer::from_slice(record);
    match DeserializeSeed::deserialize(TopLevel(delivery), &mut json) {
        Ok(()) => {}
        Err(error) if error.is_eof() && !is_ended => delivery.tally.is_cut = true,
        Err(_) => delivery.tally.bad_records += 1,
    }
}

#[cfg(test)]
mod tests;
