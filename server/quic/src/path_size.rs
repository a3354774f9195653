//! Decides when the search for the size of a path's datagrams is repeated (RFC 8899).

use std::time::{Duration, Instant};

/// Number of timeouts without an acknowledgement between them after which the server repeats the search for the path's size.
const BLACK_HOLE: u32 = 3;

/// Time between two reports of routers that are heeded. Anybody may forge one, which costs the connection a round trip with
/// small datagrams; a path that becomes narrower twice within this time is noticed by timeouts.
const REPORTS: Duration = Duration::from_secs(60);

/// Time after which larger datagrams are tried again: PMTU_RAISE_TIMER (RFC 8899 §5.1.1).
const RAISE: Duration = Duration::from_secs(600);

/// Watches the acknowledgements of one connection, and limits its searches.
#[derive(Debug, Default)]
pub(super) struct PathSize {
    /// Bytes acknowledged when the timer last expired.
    acked: u64,
    /// Expirations of the timer since then.
    timeouts: u32,
    /// Time from which a report of a router is heeded again.
    reports: Option<Instant>,
    /// Time of the next attempt to send larger datagrams.
    raise: Option<Instant>,
}

impl PathSize {
    /// A loss timer expired when `acked` bytes had been acknowledged in all. Returns whether the path's size is in doubt.
    pub(super) fn on_timeout(&mut self, acked: u64) -> bool {
        if std::mem::replace(&mut self.acked, acked) != acked {
            self.timeouts = 0;
        }
        self.timeouts += 1;
        self.timeouts == BLACK_HOLE
    }

    /// A router reports that the path does not carry what it did. Returns whether that is heeded.
    pub(super) fn on_report(&mut self, now: Instant) -> bool {
        let heeded = self.reports.is_none_or(|from| from <= now);
        if heeded {
            self.reports = Some(now + REPORTS);
        }
        heeded
    }

    /// Returns whether it is time to try larger datagrams. The first call starts the time.
    pub(super) fn is_raised(&mut self, now: Instant) -> bool {
        let due = self.raise.is_some_and(|at| at <= now);
        if due || self.raise.is_none() {
            self.raise = Some(now + RAISE);
        }
        due
    }
}

/// Returns whether a quoted payload can be that of a datagram to a peer that has chosen this connection ID, as far as it is
/// quoted.
pub(super) fn may_quote(quote: &[u8], dcid: &[u8]) -> bool {
    let is_start = |quoted: &[u8]| quoted.iter().zip(dcid).all(|(a, b)| a == b);
    let is_long = quote.first().is_some_and(|first| first & 0x80 != 0);
    match quote {
        // A long header: its version, and the length of the ID.
        [_, _, _, _, _, len, id @ ..] if is_long => usize::from(*len) == dcid.len() && is_start(id),
        [_, id @ ..] => is_long || is_start(id),
        [] => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_restarts_the_count() {
        let mut watch = PathSize::default();
        let doubts = [0, 0, 500, 500, 500, 500].map(|acked| watch.on_timeout(acked));
        assert_eq!(doubts, [false, false, false, false, true, false]);
    }

    #[test]
    fn a_report_a_minute_is_heeded() {
        let (mut path, start) = (PathSize::default(), sluicegate_base::clock::now());
        let heeded = [0, 1, 59, 60, 61, 119, 120]
            .map(|seconds| path.on_report(start + Duration::from_secs(seconds)));
        assert_eq!(heeded, [true, false, false, true, false, false, true]);
    }

    #[test]
    fn larger_datagrams_are_tried_every_ten_minutes() {
        let (mut path, start) = (PathSize::default(), sluicegate_base::clock::now());
        let raised = [0, 599, 600, 601, 1199, 1200]
            .map(|seconds| path.is_raised(start + Duration::from_secs(seconds)));
        assert_eq!(raised, [false, false, true, false, false, true]);
    }

    #[test]
    fn a_quote_with_another_connection_id_is_forged() {
        let dcid = [1, 2, 3, 4];
        for quote in [
            &[][..],
            &[0x40],
            &[0x40, 1, 2],
            &[0x7f, 1, 2, 3, 4, 99, 98],
            &[0xc0, 0, 0, 0],
            &[0xc0, 0, 0, 0, 1, 4],
            &[0xe0, 0, 0, 0, 1, 4, 1, 2, 3, 4, 0],
        ] {
            assert!(may_quote(quote, &dcid), "{quote:?}");
        }
        for quote in [
            &[0x40, 2][..],
            &[0x40, 1, 2, 3, 5],
            &[0xc0, 0, 0, 0, 1, 5],
            &[0xc0, 0, 0, 0, 1, 4, 1, 2, 4],
        ] {
            assert!(!may_quote(quote, &dcid), "{quote:?}");
        }
        assert!(may_quote(&[0x40, 9, 9], &[]), "the peer has chosen none");
    }
}
