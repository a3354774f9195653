//! Where messages go: to standard error at first, and by a thread of their own once there are others to keep from waiting.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use sluicegate_config::LogFormat;

use super::LogCounters;
use super::filter::{Filter, PERIOD};
use crate::clock;
use crate::observe::background::{Background, Bounds, Health, Job};
use crate::observe::line_sink::{LineSink, Lines, Written};
use crate::observe::unprintable::{escape_json, escape_text, is_unprintable};

/// Messages that may wait, and their bytes.
const BOUNDS: Bounds = Bounds { items: 4096, bytes: 1 << 20 };

/// The way of messages to standard error.
#[derive(Debug)]
pub(super) struct Sink {
    thread: OnceLock<Background<Lines>>,
    is_json: AtomicBool,
    has_colors: bool,
    counters: Arc<LogCounters>,
}

impl Sink {
    pub(super) fn new(counters: Arc<LogCounters>) -> Sink {
        Sink {
            thread: OnceLock::new(),
            is_json: AtomicBool::new(false),
            has_colors: has_colors(),
            counters,
        }
    }

    /// Returns whether messages may have colours.
    pub(super) fn has_colors(&self) -> bool {
        self.has_colors
    }

    /// Takes the form of the messages that follow, after which their characters are escaped.
    pub(super) fn set_format(&self, format: LogFormat) {
        let is_json = matches!(format, LogFormat::Json);
        self.is_json.store(is_json, Ordering::Relaxed);
    }

    /// Starts the thread. From then on nobody who logs waits for standard error.
    ///
    /// # Errors
    /// There is no thread, or standard error is closed.
    pub(super) fn start_thread(&self, filter: &Arc<Filter>) -> io::Result<()> {
        // Not by the lock of `Stderr`, which others would wait for.
        let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let job = Writer {
            sink: LineSink::new(Box::new(stderr)),
            counters: Arc::clone(&self.counters),
            health: Health::new("log"),
            filter: Arc::clone(filter),
            report_at: clock::now() + PERIOD,
        };
        let _ = self.thread.set(Background::start("log", BOUNDS, job)?);
        Ok(())
    }

    /// Ends the thread once it has written what waits, and returns whether it has within `limit`.
    pub(super) fn finish(&self, limit: Duration) -> bool {
        self.thread.get().is_none_or(|thread| thread.shutdown(limit))
    }

    fn put(&self, message: &[u8]) {
        let is_json = self.is_json.load(Ordering::Relaxed);
        let bytes = escaped(message, is_json, self.has_colors);
        let Some(thread) = self.thread.get() else {
            // Nobody is served yet. Nothing can be done about an error.
            let _ = io::stderr().write_all(&bytes);
            return count(&self.counters.records_written, 1);
        };
        let size = bytes.len() as u64;
        if !thread.queue.send(Lines { bytes, records: 1 }, size) {
            count(&self.counters.records_dropped_queue, 1);
        }
    }
}

/// A writer of one message, which comes whole.
impl Write for &Sink {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        self.put(message);
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns whether messages have colours: on a terminal, unless the user wants none (<https://no-color.org>).
#[expect(clippy::disallowed_methods, reason = "the variable is the user's word to every program")]
fn has_colors() -> bool {
    let wants_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !wants_none
}

/// Returns a line in which what could mislead a reader is escaped, colours of a terminal apart.
fn escaped(message: &[u8], is_json: bool, has_colors: bool) -> Vec<u8> {
    let plain = |byte: &u8| matches!(byte, b' '..=b'~');
    let (text, end) = match message.strip_suffix(b"\n") {
        Some(text) => (text, &b"\n"[..]),
        None => (message, &b""[..]),
    };
    if text.iter().all(plain) {
        return message.to_vec();
    }
    let mut out = Vec::with_capacity(message.len() + 16);
    for character in String::from_utf8_lossy(text).chars() {
        if !is_unprintable(character) || (has_colors && character == '\u{1b}') {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        } else if is_json {
            escape_json(&mut out, character);
        } else {
            escape_text(&mut out, character);
        }
    }
    out.extend_from_slice(end);
    out
}

/// The thread's work.
struct Writer {
    sink: LineSink,
    counters: Arc<LogCounters>,
    health: Health,
    filter: Arc<Filter>,
    report_at: Instant,
}

impl Job for Writer {
    type Item = Lines;

    fn take(&mut self, lines: Lines) {
        let written = self.sink.write(&lines);
        self.on_written(&written);
        self.report();
    }

    fn on_idle(&mut self) {
        let written = self.sink.mend();
        self.on_written(&written);
        self.report();
    }
}

impl Writer {
    /// Logs what was left out, from time to time.
    fn report(&mut self) {
        let now = clock::now();
        if now >= self.report_at {
            self.report_at = now + PERIOD;
            self.filter.report();
        }
    }

    fn on_written(&mut self, written: &Written) {
        count(&self.counters.records_written, written.records);
        count(&self.counters.records_dropped_disk, written.lost);
        if let Some(error) = &written.error {
            self.health.failed("write to", "standard error", error);
        } else if written.records > 0 {
            self.health.works();
        }
    }
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::unprintable::tests::MISLEADING;

    #[test]
    fn a_message_is_one_line_without_what_could_mislead_its_reader() {
        let name: String = MISLEADING.iter().collect();
        for character in MISLEADING.iter().copied().chain(['\n', '\r', '\t']) {
            let line = format!("name={character}é\n");
            let text = String::from_utf8(escaped(line.as_bytes(), false, false)).unwrap();
            let mut expected = b"name=".to_vec();
            escape_text(&mut expected, character);
            expected.extend_from_slice("é\n".as_bytes());
            assert_eq!(text.as_bytes(), expected);
        }
        let object = serde_json::json!({ "name": name, "ordinary": "é\"\\\n" });
        let line = escaped(format!("{object}\n").as_bytes(), true, false);
        let text = String::from_utf8(line).unwrap();
        assert!(!text.trim_end_matches('\n').contains(is_unprintable), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, object);
    }

    #[test]
    fn colours_are_for_terminals_alone() {
        let line = b"\x1b[31mERROR\x1b[0m\n";
        assert_eq!(escaped(line, false, true), line);
        let expected = b"\\u{1b}[31mERROR\\u{1b}[0m\n";
        assert_eq!(escaped(line, false, false), expected);
    }
}
