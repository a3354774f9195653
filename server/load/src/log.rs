//! The file with a line for each request.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes that a thread collects before it writes them.
const FLUSH: usize = 64 << 10;

/// Time at which a run starts.
#[derive(Clone, Copy)]
pub(crate) struct RunStart {
    /// By the clock.
    pub(crate) at: Instant,
    /// Since 1970.
    pub(crate) unix: Duration,
}

/// The file.
pub(crate) struct LogFile {
    file: File,
    start: RunStart,
}

impl LogFile {
    /// Opens the file; lines are added to those that it has, as h2load does.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn open(path: &Path, start: RunStart) -> std::io::Result<Self> {
        let file = File::options().append(true).create(true).open(path)?;
        Ok(LogFile { file, start })
    }
}

/// A thread's way to the file. Threads append whole lines, so lines of several threads are not in order.
pub(crate) struct RequestLog<'a> {
    log: &'a LogFile,
    lines: Vec<u8>,
    /// Lines could not be written.
    broken: Option<std::io::Error>,
}

impl<'a> RequestLog<'a> {
    pub(crate) fn new(log: &'a LogFile) -> Self {
        RequestLog { log, lines: Vec::with_capacity(FLUSH + 128), broken: None }
    }

    /// Writes a line; `status` is `None` if there was no complete response.
    pub(crate) fn write(&mut self, start: Instant, status: Option<u16>, end: Instant) {
        let run = self.log.start;
        let wall = run.unix + start.saturating_duration_since(run.at);
        let took = end.saturating_duration_since(start).as_micros();
        let status = status.map_or(-1, i32::from);
        let line = format!("{}\t{status}\t{took}\n", wall.as_micros());
        self.lines.extend_from_slice(line.as_bytes());
        if self.lines.len() >= FLUSH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.broken.is_none() {
            self.broken = (&self.log.file).write_all(&self.lines).err();
        }
        self.lines.clear();
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// A line could not be written.
    pub(crate) fn finish(mut self) -> std::io::Result<()> {
        self.flush();
        self.broken.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn lines_have_start_status_and_duration() {
        let path = std::env::temp_dir().join(format!("sluicegate-load-{}", std::process::id()));
        let begin = Instant::now();
        let file =
            LogFile::open(&path, RunStart { at: begin, unix: Duration::from_secs(10) }).unwrap();
        let mut log = RequestLog::new(&file);
        let start = begin + Duration::from_micros(5);
        log.write(start, Some(204), start + Duration::from_micros(77));
        log.write(start, None, start);
        log.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(text, "10000005\t204\t77\n10000005\t-1\t0\n");
    }
}
