//! Datagrams of a connection that achieve little, which an overloaded worker does not take (RFC 9000 §21.9).

use std::time::{Duration, Instant};

/// Datagrams that a new connection may send before it achieves anything.
const FIRST: i32 = 64;
/// Most of them that a connection may have earned, and most that it may owe for their frames.
const MOST: i32 = 256;
/// Those that a datagram earns which achieves something, for others such as PINGs and spurious retransmissions.
const EARNED: i32 = 2;
/// Bytes of streams in a datagram that achieves something, even if none of them is new: a client sends lost data again in
/// large datagrams, and a flood of these is no worse than one of uploads.
const LARGE: u64 = 256;
/// Frames of HTTP/3 that cost as much as a datagram: so many take a worker as long as one datagram.
const FRAMES: u64 = 24;
/// Bytes of payload with which a frame costs nothing: many clients send small messages in frames of their own.
const PAYLOAD: u64 = 8;
/// Time in which a connection earns a datagram by waiting.
const PERIOD: Duration = Duration::from_millis(10);

/// Totals that a connection has received so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    /// Packets that were decrypted.
    pub(super) packets: usize,
    /// Bytes that the client has acknowledged.
    pub(super) acknowledged: u64,
    /// Bytes of streams up to the largest offset of each.
    pub(super) new: u64,
    /// Bytes of streams, repeated ones included.
    pub(super) streams: u64,
}

/// Counts of what a session has read so far, beside the requests themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadTotals {
    /// Frames other than HEADERS, which a request needs.
    pub frames: u64,
    /// Bytes of bodies.
    pub payload: u64,
}

/// Account of the datagrams that a connection may send without achieving anything.
#[derive(Debug)]
pub(super) struct Progress {
    /// Datagrams that may come; below 0 if frames have cost more.
    credit: i32,
    read: ReadTotals,
    /// Frames with little payload that have not cost a datagram yet.
    frames: u64,
    /// Time for which the connection got credit; `None` before the first datagram.
    since: Option<Instant>,
}

impl Progress {
    /// Returns the account of a connection that has received nothing.
    pub(super) fn new() -> Self {
        Self { credit: FIRST, read: ReadTotals::default(), frames: 0, since: None }
    }

    /// Returns whether an overloaded worker is to take a datagram that arrives at `now`.
    pub(super) fn is_in_credit(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let waited = now.saturating_duration_since(since);
        if waited >= PERIOD {
            self.since = Some(now);
            let earned = i32::try_from(waited.as_nanos() / PERIOD.as_nanos()).unwrap_or(MOST);
            let most = self.credit.max(MOST);
            self.credit = self.credit.saturating_add(earned).min(most);
        }
        self.credit > 0
    }

    /// Counts a datagram that was taken. One that could not be decrypted costs nothing: anybody can send it.
    pub(super) fn on_datagram(&mut self, before: Received, after: Received) {
        if after.packets == before.packets {
            return;
        }
        let achieves = after.acknowledged > before.acknowledged
            || after.new > before.new
            || after.streams - before.streams >= LARGE;
        if achieves {
            self.credit = self.credit.saturating_add(EARNED);
        } else if self.credit > 0 {
            self.credit -= 1;
        }
    }

    /// Counts what the session has read since the last call. A frame costs the worker about the same, however little is in it.
    pub(super) fn on_read(&mut self, now: ReadTotals) {
        let frames = now.frames.saturating_sub(self.read.frames);
        let free = now.payload.saturating_sub(self.read.payload) / PAYLOAD;
        // A head counts as a frame until it has arrived in full, so there may be fewer frames than before.
        self.read = ReadTotals { frames: now.frames.max(self.read.frames), payload: now.payload };
        self.frames += frames.saturating_sub(free);
        let cost = i32::try_from(self.frames / FRAMES).unwrap_or(i32::MAX);
        self.frames %= FRAMES;
        // What the datagrams have earned counts in full before it is bounded: many may have come at once.
        self.credit = self.credit.saturating_sub(cost).clamp(-MOST, MOST);
    }

    /// Returns whether the connection has used up its credit.
    pub(super) fn is_spent(&self) -> bool {
        self.credit <= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Received = Received { packets: 1, acknowledged: 0, new: 0, streams: 0 };

    /// Returns how many of 10,000 datagrams are in credit, one each `step`, if they are as `datagram` says.
    fn in_credit(datagram: Received, step: Duration) -> usize {
        let (mut progress, start) = (Progress::new(), sluicegate_base::clock::now());
        let mut taken = 0;
        for n in 0..10_000 {
            if progress.is_in_credit(start + step * n) {
                taken += 1;
                progress.on_datagram(Received::default(), datagram);
            }
        }
        taken
    }

    #[test]
    fn datagrams_that_achieve_nothing_are_in_credit_at_a_low_rate() {
        assert_eq!(in_credit(ONE, Duration::ZERO), 64);
        // A second, in which a hundred are earned.
        let in_a_second = in_credit(ONE, Duration::from_micros(100));
        assert!((160..=165).contains(&in_a_second), "{in_a_second}");
        assert_eq!(in_credit(ONE, PERIOD), 10_000);
    }

    #[test]
    fn datagrams_that_acknowledge_or_bring_data_are_in_credit_at_any_rate() {
        let acknowledging = Received { acknowledged: 1, ..ONE };
        let new = Received { new: 1, ..ONE };
        let again = Received { streams: LARGE, ..ONE };
        for datagram in [acknowledging, new, again] {
            assert_eq!(in_credit(datagram, Duration::ZERO), 10_000);
        }
        let little = Received { streams: LARGE - 1, ..ONE };
        assert_eq!(in_credit(little, Duration::ZERO), 64);
    }

    /// Returns how many of 10,000 datagrams at once are in credit if each brings so many frames of so many bytes, and the session reads
    /// `batch` of them at a time.
    fn with_frames(frames: u64, payload: u64, batch: u64) -> u64 {
        let (mut progress, now) = (Progress::new(), sluicegate_base::clock::now());
        let mut taken = 0;
        while taken < 10_000 && progress.is_in_credit(now) {
            taken += 1;
            progress.on_datagram(Received::default(), Received { new: 1, ..ONE });
            if taken % batch == 0 {
                progress.on_read(ReadTotals {
                    frames: taken * frames,
                    payload: taken * frames * payload,
                });
            }
        }
        taken
    }

    #[test]
    fn frames_with_little_in_them_cost_more_than_their_datagrams_earn() {
        for payload in [0, 1, 4] {
            let taken = with_frames(400, payload, 1);
            assert!((4..15).contains(&taken), "{payload} bytes: {taken}");
            assert_eq!(with_frames(400, payload, 200), 200);
        }
        // Small messages, and a few frames without payload, one datagram at a time or many.
        for batch in [1, 200, 1000] {
            assert_eq!(with_frames(120, 8, batch), 10_000);
            assert_eq!(with_frames(40, 0, batch), 10_000);
        }
    }

    #[test]
    fn frames_are_paid_for_by_time_however_many_come_at_once() {
        let (mut progress, start) = (Progress::new(), sluicegate_base::clock::now());
        let mut read = ReadTotals::default();
        let mut taken = 0;
        // Ten seconds of batches, a hundred a second.
        for batch in 0..1000 {
            let now = start + PERIOD * batch;
            for _ in 0..100 {
                if progress.is_in_credit(now) {
                    taken += 1;
                    read.frames += 330;
                    progress.on_datagram(Received::default(), Received { new: 1, ..ONE });
                }
            }
            progress.on_read(read);
        }
        assert!(taken < 1000, "{taken}");
    }

    /// The session takes its frame for another one until it has arrived in full.
    #[test]
    fn a_head_that_arrives_in_pieces_counts_as_one_frame_at_most() {
        let mut progress = Progress::new();
        for _ in 0..100 {
            for frames in [1, 0] {
                progress.on_read(ReadTotals { frames, payload: 0 });
            }
        }
        assert_eq!(progress.frames, 1);
    }

    #[test]
    fn datagrams_that_were_not_decrypted_cost_nothing() {
        assert_eq!(in_credit(Received::default(), Duration::ZERO), 10_000);
    }

    #[test]
    fn credit_is_bounded() {
        let (mut progress, now) = (Progress::new(), sluicegate_base::clock::now());
        assert!(progress.is_in_credit(now));
        progress.on_datagram(Received::default(), Received { new: 1, ..ONE });
        progress.on_read(ReadTotals::default());
        let later = now + Duration::from_secs(3600);
        let mut left = 0;
        while progress.is_in_credit(later) {
            progress.on_datagram(Received::default(), ONE);
            left += 1;
        }
        assert_eq!(left, 256);
    }
}
