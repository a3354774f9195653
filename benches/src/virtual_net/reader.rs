//! An application that reads bodies: at once, or at a rate and within a receive window.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_quic_client::Http3Client;
use sluicegate_sim::ReceiveWindow;

/// Bytes that a slow reader takes at a time, about a datagram.
const PORTION: u64 = 1_200;

/// Bit-nanoseconds of a byte.
const BYTE: u128 = 8 * 1_000_000_000;

/// Reads the bodies of one connection.
#[derive(Debug)]
pub(super) struct Reader {
    /// `None` is never limited.
    window: Option<ReceiveWindow>,
    /// Streams with data to read.
    streams: VecDeque<u64>,
    /// Unused right to read so far, bit-nanoseconds.
    credit: u128,
    /// Time since the start of the run, of the credit.
    at: Duration,
    /// Bytes read since the last limit was due.
    freed: u64,
}

impl Reader {
    pub(super) const fn new(window: Option<ReceiveWindow>) -> Self {
        Self { window, streams: VecDeque::new(), credit: 0, at: Duration::ZERO, freed: 0 }
    }

    /// A stream has data.
    pub(super) fn on_data(&mut self, stream: u64) {
        if !self.streams.contains(&stream) {
            self.streams.push_back(stream);
        }
    }

    /// Returns the rate, bits per second; `None` reads at once.
    fn rate(&self) -> Option<u64> {
        let rate = self.window.map(|window| window.bits_per_second);
        rate.filter(|rate| *rate != u64::MAX)
    }

    /// Returns the bytes that it takes `elapsed` after the start of the run.
    fn allowed(&mut self, elapsed: Duration) -> usize {
        let Some(rate) = self.rate() else {
            return usize::MAX;
        };
        self.credit += u128::from(rate) * (elapsed - self.at).as_nanos();
        self.at = elapsed;
        let bytes = usize::try_from(self.credit / BYTE).unwrap_or(usize::MAX);
        if bytes as u64 >= PORTION { bytes } else { 0 }
    }

    /// Reads what it takes `elapsed` after the start of the run, and returns the bytes; `scratch` is overwritten.
    pub(super) fn read(
        &mut self,
        http: &mut Http3Client,
        elapsed: Duration,
        scratch: &mut [u8],
    ) -> u64 {
        let mut allowed = self.allowed(elapsed);
        let mut all = 0;
        while allowed > 0
            && let Some(stream) = self.streams.front()
        {
            let room = allowed.min(scratch.len());
            match http.read_body(*stream, &mut scratch[..room]) {
                Ok(bytes @ 1..) => {
                    allowed -= bytes;
                    all += bytes as u64;
                }
                Ok(0) | Err(_) => {
                    self.streams.pop_front();
                }
            }
        }
        self.freed += all;
        // Who has nothing to read does not read faster later.
        self.credit = if self.streams.is_empty() {
            0
        } else {
            self.credit.saturating_sub(u128::from(all) * BYTE)
        };
        all
    }

    /// Returns whether a new limit of flow control is due: quiche raises it after half a window.
    pub(super) fn take_due_limit(&mut self) -> bool {
        let due = self.window.is_some_and(|window| self.freed > window.bytes / 2);
        if due {
            self.freed = 0;
        }
        due
    }

    /// Returns when it reads next, if it waits.
    pub(super) fn next(&self) -> Option<Duration> {
        let rate = self.rate().filter(|_| !self.streams.is_empty())?;
        let missing = (u128::from(PORTION) * BYTE).saturating_sub(self.credit);
        let nanos = missing.div_ceil(u128::from(rate));
        Some(self.at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_reader_waits_for_a_portion() {
        let mut reader =
            Reader::new(Some(ReceiveWindow { bytes: 10_000, bits_per_second: 8_000_000 }));
        let us = Duration::from_micros;
        assert_eq!((reader.allowed(us(1_199)), reader.next()), (0, None));
        reader.on_data(0);
        assert_eq!(reader.next(), Some(us(1_200)));
        assert_eq!(reader.allowed(us(1_200)), 1_200);
        assert_eq!(reader.allowed(us(2_000)), 2_000);
    }

    #[test]
    fn reader_without_a_rate_takes_everything() {
        let mut reader = Reader::new(None);
        reader.on_data(0);
        assert_eq!(reader.allowed(Duration::ZERO), usize::MAX);
        assert_eq!(reader.next(), None);
        assert!(!reader.take_due_limit());
    }
}
