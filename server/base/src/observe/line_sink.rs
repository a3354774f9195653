//! Whole lines on their way to a file, a pipe or a terminal.

use std::io::{self, Write};

/// A batch of whole lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    pub(super) records: u64,
}

/// What became of lines.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) bytes: u64,
    pub(super) records: u64,
    pub(super) lost: u64,
    pub(super) error: Option<io::Error>,
}

/// A destination that gets whole lines: it receives the rest of one that it took in part before it receives another.
pub(super) struct LineSink {
    sink: Box<dyn Write + Send>,
    /// The rest of a line of which the sink took only the beginning.
    torn: Vec<u8>,
}

impl LineSink {
    pub(super) fn new(sink: Box<dyn Write + Send>) -> LineSink {
        LineSink { sink, torn: Vec::new() }
    }

    /// Writes lines. Those that the sink does not take are lost.
    pub(super) fn write(&mut self, lines: &Lines) -> Written {
        let mut written = self.mend();
        if written.error.is_some() {
            written.lost += lines.records;
            return written;
        }
        let (taken, result) = write_all(&mut *self.sink, &lines.bytes);
        written.bytes += taken as u64;
        let Err(error) = result else {
            written.records += lines.records;
            return written;
        };
        let (there, missing) = lines.bytes.split_at(taken);
        let whole = newlines(there);
        written.records += whole;
        written.lost = lines.records - whole;
        written.error = Some(error);
        if !(there.is_empty() || there.ends_with(b"\n")) {
            // The line that was begun is neither there nor lost yet.
            let rest = missing.split_inclusive(|byte| *byte == b'\n').next();
            self.torn = rest.unwrap_or_default().to_vec();
            written.lost -= 1;
        }
        written
    }

    /// Ends the line that was begun. With an error, the sink cannot take another one yet.
    pub(super) fn mend(&mut self) -> Written {
        let mut written = Written::default();
        if self.torn.is_empty() {
            return written;
        }
        let (taken, result) = write_all(&mut *self.sink, &self.torn);
        written.bytes = taken as u64;
        self.torn.drain(..taken);
        match result {
            Ok(()) => written.records = 1,
            Err(error) => written.error = Some(error),
        }
        written
    }

    /// Writes to another destination from now on. The previous one gets a last chance to end its line.
    pub(super) fn replace(&mut self, sink: Box<dyn Write + Send>) -> Written {
        let mut written = self.mend();
        if written.error.is_some() {
            written.lost = 1;
        }
        self.torn.clear();
        self.sink = sink;
        written
    }
}

/// Returns how many bytes the sink took, and the error that ended it.
fn write_all(sink: &mut dyn Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut taken = 0;
    while taken < bytes.len() {
        match sink.write(&bytes[taken..]) {
            Ok(0) => return (taken, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => taken += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (taken, Err(error)),
        }
    }
    (taken, Ok(()))
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}
