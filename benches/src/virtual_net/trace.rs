//! State of a controller of quiche, read from the trace that quiche writes.
//!
//! quiche's own controllers have no other window. As all else of a simulation, what is read belongs to the thread.

use std::cell::Cell;
use std::io::{Result, Write};

const EVENT: &str = "congestion_state_updated";

const STATES: [&str; 4] =
    ["conservative_slow_start", "slow_start", "recovery", "congestion_avoidance"];

/// The last record of this thread's connection.
#[derive(Clone, Copy, Debug)]
enum Tapped {
    Nothing,
    State(&'static str),
}

thread_local!(static TAPPED: Cell<Option<Tapped>> = const { Cell::new(None) });

/// Reads this connection from now on, the only one on this thread.
pub(super) fn tap(quic: &mut quiche::Connection) {
    TAPPED.set(Some(Tapped::Nothing));
    let (title, description) = (String::new(), String::new());
    let tap = Box::new(Tap::default());
    quic.set_qlog_with_level(tap, title, description, quiche::QlogLevel::Base);
}

/// Stops reading traces.
pub(super) fn forget() {
    TAPPED.set(None);
}

/// Returns the latest state; `None` where none was read.
pub(super) fn state() -> Option<&'static str> {
    match TAPPED.get()? {
        Tapped::Nothing => None,
        Tapped::State(state) => Some(state),
    }
}

/// Takes the trace line by line.
#[derive(Debug, Default)]
struct Tap {
    line: Vec<u8>,
}

impl Write for Tap {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        for &byte in bytes {
            if byte == b'\n' {
                read(&String::from_utf8_lossy(&self.line));
                self.line.clear();
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

fn read(line: &str) {
    if TAPPED.get().is_none() || !line.contains(EVENT) {
        return;
    }
    let named = |state: &&&str| line.contains(&format!("\"new\":\"{state}\""));
    if let Some(state) = STATES.iter().find(named) {
        TAPPED.set(Some(Tapped::State(state)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_from_lines_that_come_in_pieces() {
        TAPPED.set(Some(Tapped::Nothing));
        let mut tap = Tap::default();
        for piece in [
            "\u{1e}{\"time\":1,\"name\":\"quic:congestion_state_",
            "updated\",\"data\":{\"new\":\"recovery\"}}\n\u{1e}{\"name\":\"other\",",
            "\"new\":\"slow_start\"}\n",
        ] {
            tap.write_all(piece.as_bytes()).expect("takes all");
        }
        assert_eq!(state(), Some("recovery"));
        forget();
        assert_eq!(state(), None);
    }
}
