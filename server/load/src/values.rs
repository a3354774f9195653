//! Values of options, in h2load's notation.

use std::time::Duration;

/// Longest duration that an option takes.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// Largest UDP payload unless another is given, bytes.
const UDP_PAYLOAD: usize = 1350;
/// Smallest and largest UDP payload (RFC 9000 §14.1; the longest over IPv4), bytes.
const UDP_PAYLOADS: (usize, usize) = (1200, 65_507);

/// Parses a duration: an integer and `h`, `m`, `s` or `ms` in any case; seconds without a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let millis = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        unit => return Err(format!("unknown unit `{unit}`; known are h, m, s and ms")),
    };
    let count: u64 =
        digits.parse().map_err(|_| "expected a whole number and h, m, s or ms, such as 500ms")?;
    let time = Duration::from_millis(count.saturating_mul(millis));
    if time > LONGEST {
        return Err("expected up to 7 days".into());
    }
    Ok(time)
}

/// Parses the length of an interval: at least 100 ms, so that figures cost little.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_millis(100);
    let time = duration(text)?;
    if time < SHORTEST {
        return Err("expected at least 100ms".into());
    }
    Ok(time)
}

/// Parses a latency that is not zero: a duration, with `us` as one more unit.
pub(crate) fn latency(text: &str) -> Result<Duration, String> {
    let micros = text.strip_suffix("us").and_then(|count| count.parse().ok());
    match micros {
        Some(0) => Err("expected more than 0".into()),
        Some(micros) => Ok(Duration::from_micros(micros)),
        None => period(text),
    }
}

/// Parses a duration that is not zero.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() {
        return Err("expected more than 0".into());
    }
    Ok(time)
}

/// Parses a UDP payload size: an integer and a unit, `K`, `M` or `G` in any case, for powers of 1024. 0 is the default. h2load takes
/// up to 64K, which is cut to what IPv4 carries.
pub(crate) fn payload_size(text: &str) -> Result<usize, String> {
    const MOST: usize = 64 << 10;
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: Option<usize> = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => Some(1),
        "k" => Some(1 << 10),
        "m" => Some(1 << 20),
        "g" => Some(1 << 30),
        _ => None,
    };
    let size = unit.zip(digits.parse().ok());
    let size = size.and_then(|(unit, size): (_, usize)| size.checked_mul(unit));
    let (least, most) = UDP_PAYLOADS;
    match size {
        Some(0) => Ok(UDP_PAYLOAD),
        Some(size) if (least..=MOST).contains(&size) => Ok(size.min(most)),
        _ => Err(format!("expected bytes from {least} to {MOST}, or 0")),
    }
}

/// Parses a rate per second, or 0 for none.
pub(crate) fn rate_or_none(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(0.0) => Ok(0.0),
        _ => rate(text),
    }
}

/// Parses a rate per second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok();
    // h2load's bound, and one that keeps times within what a clock can hold.
    rate.filter(|rate: &f64| (0.001..=1e6).contains(rate))
        .ok_or_else(|| "expected a number from 0.001 to 1000000".into())
}

/// Parses a field, `NAME: VALUE`; a name may begin with a colon.
pub(crate) fn field(text: &str) -> Result<(String, String), String> {
    let at = text.get(1..).and_then(|rest| rest.find(':'));
    let (name, value) = at.map_or((text, ""), |at| (&text[..=at], text[at + 2..].trim()));
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let plain = name.strip_prefix(':').unwrap_or(name);
    if plain.is_empty() || !plain.chars().all(token) {
        return Err("expected NAME: VALUE".into());
    }
    if value.is_empty() {
        return Err(format!("`{name}` has no value; expected NAME: VALUE"));
    }
    if value.chars().any(char::is_control) {
        return Err(format!("the value of `{name}` has a control character"));
    }
    Ok((name.to_ascii_lowercase(), value.to_owned()))
}

/// Parses a host with a port, if it has one: `HOST[:PORT]`, `[ADDRESS]:PORT`.
pub(crate) fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    const EXPECTED: &str = "expected HOST or HOST:PORT; an IPv6 address in brackets";
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or(EXPECTED)?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => Some(port.parse().ok().filter(|p| *p != 0).ok_or(EXPECTED)?),
        None if rest.is_empty() => None,
        None => return Err(EXPECTED.into()),
    };
    if host.is_empty() {
        return Err(EXPECTED.into());
    }
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, millis) in [("10", 10_000), ("3s", 3_000), ("5ms", 5), ("2m", 120_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        for (text, millis) in [("0", 0), ("0ms", 0), ("2S", 2_000), ("7Ms", 7), ("1M", 60_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert!(period("0").is_err() && period("1").is_ok());
        assert_eq!(latency("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(latency("5ms"), Ok(Duration::from_millis(5)));
        assert!(latency("0").is_err() && latency("us").is_err());
        assert_eq!(interval("100ms"), Ok(Duration::from_millis(100)));
        assert!(interval("99ms").is_err());
        for text in ["", "s", "1.5s", "-1", "1d", "99999999999999999999h", "169h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn fields_have_a_name_and_a_value() {
        let both = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(field("Accept: */*"), both("accept", "*/*"));
        assert_eq!(field(":method:HEAD"), both(":method", "HEAD"));
        assert_eq!(field("a:b:c"), both("a", "b:c"));
        for text in ["", ":", "a", "a:", "a: ", ": b", "a b: c", "a: b\nc: d", "ä: b"] {
            assert!(field(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn hosts_have_ports_or_none() {
        let both = |host: &str, port| Ok((host.to_owned(), port));
        assert_eq!(host_and_port("a.example"), both("a.example", None));
        assert_eq!(host_and_port("127.0.0.1:4433"), both("127.0.0.1", Some(4433)));
        assert_eq!(host_and_port("[::1]:1"), both("::1", Some(1)));
        assert_eq!(host_and_port("[::1]"), both("::1", None));
        for text in ["", ":1", "a:", "a:0", "a:x", "a:65536", "[::1", "[::1]1", "::1"] {
            assert!(host_and_port(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_rates_are_within_bounds() {
        assert_eq!(payload_size("1350"), Ok(1350));
        assert_eq!(payload_size("16K"), Ok(16_384));
        assert_eq!(payload_size("64k"), Ok(65_507));
        assert_eq!(payload_size("0"), Ok(1350));
        for text in ["", "1199", "65K", "1M", "K", "2X", "18446744073709551615K"] {
            assert!(payload_size(text).is_err(), "{text}");
        }
        assert_eq!(rate("0.5"), Ok(0.5));
        assert_eq!(rate_or_none("0"), Ok(0.0));
        assert!(rate_or_none("-1").is_err() && rate_or_none("x").is_err());
        for text in ["", "0", "-1", "nan", "inf", "2e6"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
