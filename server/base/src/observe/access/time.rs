//! Formats times in UTC, by the Gregorian calendar.

use std::time::Duration;

use jiff::fmt::StdIoWrite;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::fmt::temporal::DateTimePrinter;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Prints microseconds, cut off.
const MICROSECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(6));

/// Writes a time since 1970 as `2026-11-21T10:13:34.000250Z` (RFC 3339).
pub(super) fn rfc3339(out: &mut Vec<u8>, unix: Duration) {
    // Writing to memory cannot fail.
    let _ = MICROSECONDS.print_timestamp(&timestamp(unix), StdIoWrite(out));
}

/// Writes a time since 1970 as `21/Nov/2026:10:13:34 +0000`, as Apache does.
pub(super) fn common(out: &mut Vec<u8>, unix: Duration) {
    let time = timestamp(unix).to_zoned(TimeZone::UTC);
    let _ = BrokenDownTime::from(&time).format("%d/%b/%Y:%H:%M:%S %z", StdIoWrite(out));
}

/// Returns the timestamp, or the calendar's last for a time past it.
fn timestamp(unix: Duration) -> Timestamp {
    let unix = SignedDuration::try_from(unix).unwrap_or(SignedDuration::MAX);
    Timestamp::from_duration(unix).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;

    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

    fn text(write: fn(&mut Vec<u8>, Duration), unix: Duration) -> String {
        let mut out = Vec::new();
        write(&mut out, unix);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn known_days_are_right() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000250Z"),
            (951_782_400, "2000-02-29T00:00:00.000250Z"),
            (951_868_799, "2000-02-29T23:59:59.000250Z"),
            (951_868_800, "2000-03-01T00:00:00.000250Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000250Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000250Z"),
        ] {
            let unix = Duration::new(seconds, 250_999);
            assert_eq!(text(rfc3339, unix), expected);
        }
        let unix = Duration::from_secs(951_868_799);
        assert_eq!(text(common, unix), "29/Feb/2000:23:59:59 +0000");
    }

    #[test]
    fn a_time_past_the_calendar_is_its_last() {
        let end = "9999-12-30T22:00:00.999999Z";
        assert_eq!(text(rfc3339, Duration::MAX), end);
    }

    proptest! {
        /// Compares with the dates of another crate.
        #[test]
        fn every_second_is_the_same_as_in_a_http_date(seconds in 0_u64..253_402_300_799) {
            let unix = Duration::from_secs(seconds);
            let date = httpdate::fmt_http_date(UNIX_EPOCH + unix);
            let [_, day, month, year, time, _] = date.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{date}");
            };
            prop_assert_eq!(text(common, unix), format!("{day}/{month}/{year}:{time} +0000"));
            let number = MONTHS.iter().position(|name| *name == month).unwrap() + 1;
            let expected = format!("{year}-{number:02}-{day}T{time}.000000Z");
            prop_assert_eq!(text(rfc3339, unix), expected);
        }
    }
}
