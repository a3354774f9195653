//! Numbers as h2load writes them.

use std::time::Duration;

/// A function that formats a statistic for the report.
pub(crate) type Form = fn(f64) -> String;

/// Returns a number with two decimals, rounded half away from zero.
pub(crate) fn decimal(number: f64) -> String {
    format!("{:.2}", (number * 100.0).round() / 100.0)
}

/// Returns seconds with the unit that suits them.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds >= 1.0 {
        decimal(seconds) + "s"
    } else if seconds >= 0.001 {
        decimal(seconds * 1e3) + "ms"
    } else {
        // Whole microseconds, of which the division by a unit takes none away.
        format!("{:.0}us", (seconds * 1e6 + 1e-6).floor())
    }
}

/// Returns a whole number of the largest unit that divides the time.
pub(crate) fn period(time: Duration) -> String {
    let (seconds, millis) = (time.as_secs(), time.as_millis());
    match (millis % 1000, seconds % 60, seconds / 60 % 60) {
        (0, 0, 0) => format!("{}h", seconds / 3600),
        (0, 0, _) => format!("{}m", seconds / 60),
        (0, ..) => format!("{seconds}s"),
        _ => format!("{millis}ms"),
    }
}

/// Returns a number of bytes with a binary prefix.
#[expect(clippy::cast_precision_loss, reason = "two decimals are written")]
pub(crate) fn bytes(bytes: u64) -> String {
    for (unit, bits) in [("G", 30), ("M", 20), ("K", 10)] {
        if bytes >= 1 << bits {
            return decimal(bytes as f64 / f64::from(1 << bits)) + unit;
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_h2load() {
        assert_eq!(decimal(0.0), "0.00");
        assert_eq!(decimal(1234.567), "1234.57");
        assert_eq!(duration(0.0), "0us");
        assert_eq!(duration(0.000_999_9), "999us");
        assert_eq!(duration(0.001), "1.00ms");
        assert_eq!(duration(12.345_6), "12.35s");
        for text in ["1h", "90m", "90s", "1s", "1500ms"] {
            assert_eq!(period(crate::values::period(text).unwrap()), text);
        }
        assert_eq!(bytes(1023), "1023");
        assert_eq!(bytes(1536), "1.50K");
        assert_eq!(bytes(10 << 30), "10.00G");
    }
}
