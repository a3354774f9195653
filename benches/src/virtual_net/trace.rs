//! State of a controller of quiche, read from the trace that quiche writes: its own controllers have no other window.

use std::io::{Result, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const EVENT: &str = "congestion_state_updated";

const STATES: [&str; 4] =
    ["conservative_slow_start", "slow_start", "recovery", "congestion_avoidance"];

/// The latest state of a connection, by its place in [`STATES`]; beyond them before the first.
#[derive(Clone, Debug)]
pub(super) struct States(Arc<AtomicUsize>);

impl States {
    /// Reads those of a connection from now on.
    pub(super) fn of(quic: &mut quiche::Connection) -> Self {
        let tap = Tap::new();
        let states = tap.states.clone();
        let (title, description) = (String::new(), String::new());
        quic.set_qlog_with_level(Box::new(tap), title, description, quiche::QlogLevel::Base);
        states
    }

    /// Returns the latest state; `None` where none was read.
    pub(super) fn latest(&self) -> Option<&'static str> {
        STATES.get(self.0.load(Ordering::Relaxed)).copied()
    }
}

/// Takes the trace line by line.
#[derive(Debug)]
struct Tap {
    line: Vec<u8>,
    states: States,
}

impl Tap {
    fn new() -> Self {
        Self { line: Vec::new(), states: States(Arc::new(AtomicUsize::new(STATES.len()))) }
    }

    fn read_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line);
        if line.contains(EVENT) {
            let named = |state: &&str| line.contains(&format!("\"new\":\"{state}\""));
            if let Some(place) = STATES.iter().position(named) {
                self.states.0.store(place, Ordering::Relaxed);
            }
        }
        self.line.clear();
    }
}

impl Write for Tap {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        for &byte in bytes {
            if byte == b'\n' {
                self.read_line();
            } else {
                self.line.push(byte);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_from_lines_that_come_in_pieces() {
        let mut tap = Tap::new();
        assert_eq!(tap.states.latest(), None);
        for piece in [
            "\u{1e}{\"time\":1,\"name\":\"quic:congestion_state_",
            "updated\",\"data\":{\"new\":\"recovery\"}}\n\u{1e}{\"name\":\"other\",",
            "\"new\":\"slow_start\"}\n",
        ] {
            tap.write_all(piece.as_bytes()).expect("takes all");
        }
        assert_eq!(tap.states.latest(), Some("recovery"));
    }
}
