//! Durations and sizes as words: `"1m30s"`, `"16MiB"`.

use std::time::Duration;

/// Units of a duration, largest first, in nanoseconds.
const DURATION_UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Units of a size in bytes; those a size is printed in come first, largest first.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Splits off a leading whole number.
#[inline]
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

/// Reads numbers with units, largest unit first, each unit once; `None` for anything else, or beyond 584 years.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total: u64 = 0;
    let mut allowed = &DURATION_UNITS[..];
    while !rest.is_empty() || total == 0 && allowed.len() == DURATION_UNITS.len() {
        let (count, after) = number(rest)?;
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let at = allowed.iter().position(|(name, _)| *name == unit)?;
        total = total.checked_add(count.checked_mul(allowed[at].1)?)?;
        allowed = &allowed[at + 1..];
        rest = after;
    }
    Some(Duration::from_nanos(total))
}

/// Returns the shortest form that [`parse_duration`] reads back; a duration beyond its range is printed as its limit.
pub(crate) fn format_duration(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    for (unit, nanos) in DURATION_UNITS {
        if rest >= nanos {
            out += &format!("{}{unit}", rest / nanos);
            rest %= nanos;
        }
    }
    out
}

/// Reads bytes from a whole number, with or without a unit: `5000`, `64KiB`, `1GB`; `None` for anything else, or beyond 64
/// bits. Sizes in request paths are read by it too, so it is inlined there: this crate is optimised less where the server is tested.
#[inline]
pub fn parse_size(text: &str) -> Option<u64> {
    let (count, unit) = number(text)?;
    if unit.is_empty() {
        return Some(count);
    }
    let (_, bytes) = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?;
    count.checked_mul(*bytes)
}

/// Returns a size that other servers write differently, such as `10m` or `10mb`, as a file here has it: a single letter is a power
/// of 1024, as for nginx.
pub(crate) fn nearest_size(text: &str) -> Option<String> {
    let (count, unit) = number(text)?;
    let unit = unit.trim_start();
    let letter = match unit {
        "k" | "K" => Some("KiB"),
        "m" | "M" => Some("MiB"),
        "g" | "G" => Some("GiB"),
        "t" | "T" => Some("TiB"),
        _ => None,
    };
    let known = || {
        let mut units = SIZE_UNITS.iter().map(|(name, _)| *name);
        units.find(|name| name.eq_ignore_ascii_case(unit))
    };
    let unit = letter.or_else(known)?;
    Some(format!("{count}{unit}"))
}

/// Returns a size in the largest binary unit that divides it, in bytes otherwise.
pub(crate) fn format_size(bytes: u64) -> String {
    let binary = SIZE_UNITS[..4].iter();
    match binary.clone().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

/// Returns a duration as a TOML value.
pub(crate) fn toml_duration(duration: Duration) -> String {
    format!("\"{}\"", format_duration(duration))
}

/// Returns a size as a TOML value.
pub(crate) fn toml_size(bytes: u64) -> String {
    format!("\"{}\"", format_size(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_numbers_with_falling_units() {
        for (text, ms) in [
            ("30s", 30_000),
            ("250ms", 250),
            ("1m30s", 90_000),
            ("1h1ms", 3_600_001),
            ("2d", 172_800_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn other_durations_are_refused() {
        for text in [
            "",
            "30",
            "s",
            "1.5s",
            "-1s",
            "30s1m",
            "1s1s",
            "1 s",
            "30S",
            "1week",
            "1s ",
            "٣s",
            "99999999999999999999s",
            "999999999999d",
            "18446744073709551615ns1ns",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_a_number_with_a_unit() {
        for (text, bytes) in [
            ("16MiB", 16 << 20),
            ("64KiB", 64 << 10),
            ("1GB", 1_000_000_000),
            ("7B", 7),
            ("0B", 0),
            ("5000", 5000),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "16mib", "1.5GiB", "-1B", "16 MiB", "16777216TiB", "1MiB1KiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn durations_survive_printing(nanos: u64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
        }

        #[test]
        fn sizes_survive_printing(bytes: u64, shift in 0_u32..50) {
            let bytes = bytes >> shift << shift;
            prop_assert_eq!(parse_size(&format_size(bytes)), Some(bytes));
        }

        #[test]
        fn any_text_is_answered(text in ".{0,24}") {
            let (_, _) = (parse_duration(&text), parse_size(&text));
        }
    }
}
