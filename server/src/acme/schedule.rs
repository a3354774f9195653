//! When certificates are renewed, and when a failure is followed by another attempt. Times are in seconds since 1970.

use std::ops::Range;

/// Time after the first failure until the next attempt, seconds. Let's Encrypt allows five failures for a name in an hour.
const FIRST_RETRY: i64 = 120;
/// Longest time between two attempts, seconds.
const LAST_RETRY: i64 = 6 * 3600;
/// Age that a certificate has at least when it is replaced, seconds: one whose renewal is past already when it is issued, as on a host
/// whose clock is wrong, would be followed by others without a pause. It is less for certificates that are valid for less than three
/// times as long.
const LEAST_AGE: i64 = 3600;
/// Age that every certificate has at least when it is replaced, seconds.
const LEAST_AGE_OF_ALL: i64 = 10;

/// Validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) from: i64,
    pub(super) to: i64,
}

impl Validity {
    fn lifetime(self) -> i64 {
        self.to.saturating_sub(self.from).max(0)
    }

    /// Returns the age that the certificate has at least when it is replaced.
    fn least_age(self) -> i64 {
        LEAST_AGE.min((self.lifetime() / 3).max(LEAST_AGE_OF_ALL))
    }

    /// Returns the time of the renewal without a suggestion: at two thirds of the lifetime, and up to a twentieth of it earlier by
    /// `jitter`, from 0 to 1, so that certificates that were issued together are not renewed together. It is not so soon after
    /// `issued` that one renewal follows the other.
    pub(super) fn renewal(self, issued: i64, jitter: f64) -> i64 {
        let lifetime = self.lifetime();
        let due = self.from + lifetime / 3 * 2 - part(lifetime / 20, jitter);
        due.max(issued + self.least_age())
    }

    /// Returns the time of the renewal within the window that the authority suggests. It is not so late that the certificate may
    /// expire, and not so soon after `issued` that one renewal follows the other.
    pub(super) fn suggested_renewal(self, window: Range<i64>, issued: i64, jitter: f64) -> i64 {
        let lifetime = self.lifetime();
        let length = window.end.saturating_sub(window.start).max(0);
        let chosen = window.start.saturating_add(part(length, jitter));
        let last = self.to - lifetime / 6;
        chosen.min(last).max(issued + self.least_age())
    }
}

/// Returns the time until the next attempt after this number of failures in a row, at least one.
pub(super) fn retry_after(failures: u32, jitter: f64) -> i64 {
    let doublings = failures.saturating_sub(1).min(16);
    let pause = (FIRST_RETRY << doublings).min(LAST_RETRY);
    pause + part(pause / 10, jitter)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "seconds of years, and to the second is exact enough"
)]
fn part(seconds: i64, jitter: f64) -> i64 {
    (seconds as f64 * jitter) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    #[test]
    fn certificates_are_renewed_at_two_thirds_of_their_lifetime() {
        let quarter = Validity { from: 0, to: 90 * DAY };
        assert_eq!(quarter.renewal(0, 0.0), 60 * DAY);
        assert_eq!(quarter.renewal(0, 1.0), 60 * DAY - 90 * DAY / 20);
        let week = Validity { from: 100 * DAY, to: 106 * DAY };
        assert_eq!(week.renewal(100 * DAY, 0.0), 104 * DAY);
        let broken = Validity { from: 5, to: 1 };
        assert_eq!(broken.renewal(0, 0.5), LEAST_AGE_OF_ALL);
    }

    #[test]
    fn a_certificate_that_is_issued_late_in_its_lifetime_is_not_renewed_at_once() {
        let quarter = Validity { from: 0, to: 90 * DAY };
        assert_eq!(quarter.renewal(80 * DAY, 0.0), 80 * DAY + LEAST_AGE);
    }

    #[test]
    fn suggested_windows_count_but_neither_expire_nor_chase() {
        let quarter = Validity { from: 0, to: 90 * DAY };
        let at = |start, end, issued, jitter| quarter.suggested_renewal(start..end, issued, jitter);
        assert_eq!(at(50 * DAY, 52 * DAY, 0, 0.5), 51 * DAY);
        // A window in the past, as for a certificate that will be revoked, is now.
        assert_eq!(at(DAY, 2 * DAY, 10 * DAY, 0.5), 10 * DAY + LEAST_AGE);
        assert_eq!(at(100 * DAY, 200 * DAY, 0, 0.5), 75 * DAY);
        assert_eq!(at(9 * DAY, 8 * DAY, 0, 0.5), 9 * DAY);
        assert_eq!(at(i64::MIN, i64::MAX, 0, 0.5), LEAST_AGE);
        let minute = Validity { from: 0, to: 60 };
        assert_eq!(minute.suggested_renewal(-DAY..DAY, 0, 0.0), 20);
    }

    #[test]
    fn pauses_double_up_to_six_hours() {
        let pauses: Vec<i64> = (1..=10).map(|n| retry_after(n, 0.0)).collect();
        assert_eq!(pauses[..4], [120, 240, 480, 960]);
        assert_eq!(pauses[8..], [LAST_RETRY, LAST_RETRY]);
        assert_eq!(retry_after(u32::MAX, 0.0), LAST_RETRY);
        assert_eq!(retry_after(1, 1.0), 132);
        // The authority counts failures by the hour.
        let begun = pauses.iter().scan(0, |at, pause| {
            *at += pause;
            Some(*at)
        });
        assert_eq!(begun.filter(|at| *at < 3600).count() + 1, 5);
    }
}
