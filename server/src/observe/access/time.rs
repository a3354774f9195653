//! Times as the formats write them: in UTC, by the Gregorian calendar.

use std::time::Duration;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Calendar {
    year: u64,
    /// From 1.
    month: usize,
    /// From 1.
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Calendar {
    fn of(unix: Duration) -> Calendar {
        let seconds = unix.as_secs();
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        // Counted from 1 March of the year 0, a leap day is the last day of its year, and 400 years have 146 097 days.
        let days = days + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // From March, months have 31, 30, 31, 30, 31 days, and then again.
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let (month, next_year) = if month < 10 {
            (month + 3, 0)
        } else {
            (month - 9, 1)
        };
        Calendar {
            year: era * 400 + year_of_era + next_year,
            month: usize::try_from(month).unwrap_or(1),
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }
}

/// `2026-11-21T10:13:34.000250Z` (RFC 3339).
pub(super) fn rfc3339(out: &mut Vec<u8>, unix: Duration) {
    let time = Calendar::of(unix);
    digits(out, time.year, 4);
    out.push(b'-');
    digits(out, time.month as u64, 2);
    out.push(b'-');
    digits(out, time.day, 2);
    out.push(b'T');
    clock(out, time);
    out.push(b'.');
    digits(out, unix.subsec_micros().into(), 6);
    out.push(b'Z');
}

/// `21/Nov/2026:10:13:34 +0000`, as Apache writes it.
pub(super) fn common(out: &mut Vec<u8>, unix: Duration) {
    let time = Calendar::of(unix);
    digits(out, time.day, 2);
    out.push(b'/');
    out.extend_from_slice(MONTHS[time.month - 1].as_bytes());
    out.push(b'/');
    digits(out, time.year, 4);
    out.push(b':');
    clock(out, time);
    out.extend_from_slice(b" +0000");
}

fn clock(out: &mut Vec<u8>, time: Calendar) {
    digits(out, time.hour, 2);
    out.push(b':');
    digits(out, time.minute, 2);
    out.push(b':');
    digits(out, time.second, 2);
}

/// The last `width` digits.
fn digits(out: &mut Vec<u8>, number: u64, width: u32) {
    const DIGITS: &[u8; 10] = b"0123456789";
    for place in (0..width).rev() {
        let digit = number / 10_u64.pow(place) % 10;
        out.push(DIGITS[usize::try_from(digit).unwrap_or(0)]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;

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

    proptest! {
        /// Against a date of another making.
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
