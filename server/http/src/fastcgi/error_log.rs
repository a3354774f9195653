//! Lines that a script writes to its standard error.

use std::sync::Arc;

/// Longest line, bytes; the rest of a longer one is left out.
const MAX_LINE: usize = 2048;
/// Lines of a request that are logged.
const MAX_LINES: u32 = 64;

/// Logs the lines of one request. The process's log bounds those of all requests together.
#[derive(Debug)]
pub(super) struct ErrorLog {
    upstream: Arc<str>,
    script: String,
    line: Vec<u8>,
    logged: u32,
}

impl ErrorLog {
    pub(super) fn new(upstream: &Arc<str>, script: &[u8]) -> ErrorLog {
        ErrorLog {
            upstream: Arc::clone(upstream),
            script: String::from_utf8_lossy(script).into_owned(),
            line: Vec::new(),
            logged: 0,
        }
    }

    /// Takes bytes, and logs the lines that are complete.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let mut part = lines.next();
        while let Some(bytes) = part {
            let room = MAX_LINE - self.line.len();
            self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
            part = lines.next();
            if part.is_some() {
                self.log();
            }
        }
    }

    /// Logs a line, unless it is empty or one too many.
    fn log(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = line.trim_ascii();
        if line.is_empty() || self.logged == MAX_LINES {
            return;
        }
        self.logged += 1;
        let (upstream, script, line) =
            (&self.upstream, &self.script, String::from_utf8_lossy(line));
        tracing::warn!(%upstream, %script, "a script reports: {line}");
    }
}

impl Drop for ErrorLog {
    fn drop(&mut self) {
        self.log();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_gathered_and_bounded() {
        let mut log = ErrorLog::new(&Arc::from("fastcgi://php:9000"), b"index.php");
        log.push(b"PHP Warn");
        assert_eq!((&*log.line, log.logged), (&b"PHP Warn"[..], 0));
        log.push(b"ing\n\n  \r\nPHP Notice\nPHP");
        assert_eq!((&*log.line, log.logged), (&b"PHP"[..], 2));
        log.push(&[b'x'; 2 * MAX_LINE]);
        assert_eq!(log.line.len(), MAX_LINE);
        log.push(&b"\nx".repeat(1000));
        assert_eq!(log.logged, MAX_LINES);
    }
}
