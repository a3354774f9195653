//! Rates, sizes, times and faults as the command line writes them: `20mbit`, `1bdp`, `30%@0s-2s`.

use std::time::Duration;

use sluicegate_sim::{Aqm, LossWindow, Policer, Reorder};

const TIMES: &[(&str, f64)] = &[("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
const RATES: &[(&str, f64)] = &[("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
const SIZES: &[(&str, f64)] = &[("mb", 1e6), ("kb", 1e3), ("b", 1.0)];

/// Room in a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Room {
    /// Multiple of rate times round trip.
    Bdp(f64),
    /// Bytes.
    Bytes(u64),
    /// Time that a full queue takes to drain at the first rate.
    Time(Duration),
}

impl Room {
    /// Returns the bytes of a queue in front of this rate, on a path with this round trip.
    pub fn bytes(self, bits_per_second: u64, rtt: Duration) -> u64 {
        let of = |time: Duration| bits_per_second as f64 / 8.0 * time.as_secs_f64();
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Bdp(multiple) => whole(of(rtt) * multiple),
            Self::Time(time) => whole(of(time)),
        }
    }
}

/// Parses a rate, `20mbit` or `unlimited`, as bits per second.
///
/// # Errors
///
/// Says what was expected, as all functions of this module.
pub fn rate(text: &str) -> Result<u64, String> {
    if text == "unlimited" {
        return Ok(u64::MAX);
    }
    let rate = whole(with_unit(text, RATES, "a rate such as 20mbit")?);
    if rate == 0 {
        return Err("expected more than nothing".to_owned());
    }
    Ok(rate)
}

/// Parses a time, `50ms`.
///
/// # Errors
///
/// See [`rate`].
pub fn time(text: &str) -> Result<Duration, String> {
    let seconds = with_unit(text, TIMES, "a time such as 50ms")?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "expected a shorter time".to_owned())
}

/// Parses the room in a queue: `1bdp`, `64kb` or `40ms`.
///
/// # Errors
///
/// See [`rate`].
pub fn room(text: &str) -> Result<Room, String> {
    if let Ok(multiple) = with_unit(text, &[("bdp", 1.0)], "") {
        return Ok(Room::Bdp(multiple));
    }
    if let Ok(bytes) = size(text) {
        return Ok(Room::Bytes(bytes));
    }
    let time = time(text).map_err(|_| "expected 1bdp, 64kb or 40ms".to_owned())?;
    Ok(Room::Time(time))
}

/// Parses bytes, `64kb`.
///
/// # Errors
///
/// See [`rate`].
pub fn size(text: &str) -> Result<u64, String> {
    with_unit(text, SIZES, "bytes such as 64kb").map(whole)
}

/// Parses a loss: `1%`, or for a time `30%@0s-2s`.
///
/// # Errors
///
/// See [`rate`].
pub fn loss(text: &str) -> Result<LossWindow, String> {
    let (share, window) = text.split_once('@').unwrap_or((text, ""));
    let whole = LossWindow::always(percent(share)?);
    if window.is_empty() {
        return Ok(whole);
    }
    let bounds = window.split_once('-');
    let (from, until) = bounds.ok_or("expected 30%@0s-2s")?;
    Ok(LossWindow { from: time(from)?, until: time(until)?, ..whole })
}

/// Parses reordering, `1%:5ms`: share of packets, and the extra delay by which others overtake them.
///
/// # Errors
///
/// See [`rate`].
pub fn reorder(text: &str) -> Result<Reorder, String> {
    let (share, by) = text.split_once(':').ok_or("expected 1%:5ms")?;
    Ok(Reorder { probability: percent(share)?, by: time(by)? })
}

/// Parses an AQM, `codel`, or `codel-ecn`, which marks packets that are capable of ECN instead of dropping them.
///
/// # Errors
///
/// See [`rate`].
pub fn aqm(text: &str) -> Result<Aqm, String> {
    let (name, ecn) = match text.strip_suffix("-ecn") {
        Some(name) => (name, true),
        None => (text, false),
    };
    match (name, ecn) {
        ("codel", ecn) => Ok(Aqm::CoDel { ecn }),
        ("fq-codel", ecn) => Ok(Aqm::FqCoDel { ecn }),
        ("pie", ecn) => Ok(Aqm::Pie { ecn }),
        ("dual-pi2", false) => Ok(Aqm::DualPi2),
        _ => Err("expected codel, fq-codel or pie, each also with -ecn, or dual-pi2".to_owned()),
    }
}

/// Parses a policer, `10mbit:50kb`: rate and burst.
///
/// # Errors
///
/// See [`rate`].
pub fn policer(text: &str) -> Result<Policer, String> {
    let (bits, burst) = text.split_once(':').ok_or("expected 10mbit:50kb")?;
    Ok(Policer { bits_per_second: rate(bits)?, burst_bytes: size(burst)? })
}

/// Parses a later rate, `10s:1mbit`.
///
/// # Errors
///
/// See [`rate`].
pub fn change(text: &str) -> Result<(Duration, u64), String> {
    let (from, to) = text.split_once(':').ok_or("expected 10s:1mbit")?;
    Ok((time(from)?, rate(to)?))
}

/// Parses a trace: a line for each change, with its time and the rate from then on: `1.5s 12mbit`. Empty lines and what follows
/// a `#` count for nothing.
///
/// # Errors
///
/// Names the line, and what was expected there.
pub fn trace(text: &str) -> Result<Vec<(Duration, u64)>, String> {
    let mut changes: Vec<(Duration, u64)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let parts = line.split_once(char::is_whitespace);
        let parts = parts.ok_or("expected `1.5s 12mbit`".to_owned());
        let parts = parts.and_then(|(from, to)| Ok((time(from)?, rate(to.trim())?)));
        let change = parts.map_err(|error| format!("line {number}: {error}"))?;
        if changes.last().is_some_and(|last| last.0 >= change.0) {
            return Err(format!("line {number}: expected a later time"));
        }
        changes.push(change);
    }
    if changes.first().is_none_or(|first| !first.0.is_zero()) {
        return Err("expected a first rate, from 0s".to_owned());
    }
    Ok(changes)
}

fn percent(text: &str) -> Result<f64, String> {
    let share = with_unit(text, &[("%", 0.01)], "a share such as 1%")?;
    if share > 1.0 {
        return Err("expected 100% at most".to_owned());
    }
    Ok(share)
}

fn with_unit(text: &str, units: &[(&str, f64)], expected: &str) -> Result<f64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
    let unit = units.iter().find(|(unit, _)| text[digits.len()..] == **unit);
    let number = digits.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    match (number, unit) {
        (Some(number), Some((_, factor))) => Ok(number * factor),
        _ => Err(format!("expected {expected}")),
    }
}

fn whole(number: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "rounded; saturates")]
    let whole = number.round() as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn numbers_have_their_units() {
        assert_eq!(rate("20mbit"), Ok(20_000_000));
        assert_eq!(rate("1.5gbit"), Ok(1_500_000_000));
        assert_eq!(rate("unlimited"), Ok(u64::MAX));
        assert_eq!(time("50ms"), Ok(50 * MS));
        assert_eq!(time("0.5s"), Ok(500 * MS));
        assert_eq!(size("64kb"), Ok(64_000));
        for wrong in ["", "20", "mbit", "-1mbit", "0mbit", "20mbits", "naNmbit", "20 mbit"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert!(time("1e300s").is_err());
    }

    #[test]
    fn room_is_bytes_or_time_or_a_multiple_of_the_bdp() {
        let room = |text| room(text).map(|room| room.bytes(20_000_000, 40 * MS));
        assert_eq!(room("0.5bdp"), Ok(50_000));
        assert_eq!(room("50kb"), Ok(50_000));
        assert_eq!(room("20ms"), Ok(50_000));
        assert!(room("5").is_err());
    }

    #[test]
    fn aqm_has_a_name_and_may_mark() {
        assert_eq!(aqm("pie"), Ok(Aqm::Pie { ecn: false }));
        assert_eq!(aqm("fq-codel-ecn"), Ok(Aqm::FqCoDel { ecn: true }));
        assert_eq!(aqm("dual-pi2"), Ok(Aqm::DualPi2));
        assert!(aqm("dual-pi2-ecn").is_err());
        assert!(aqm("red").is_err());
    }

    #[test]
    fn faults_have_their_parts() {
        let always = loss("1%").expect("loss");
        assert_eq!(always.probability, 0.01);
        assert_eq!(always.until, Duration::MAX);
        let window = loss("30%@0s-2s").expect("loss");
        assert_eq!((window.from, window.until), (Duration::ZERO, 2_000 * MS));
        let reorder = reorder("1%:5ms").expect("reordering");
        assert_eq!((reorder.probability, reorder.by), (0.01, 5 * MS));
        let policer = policer("10mbit:50kb").expect("policer");
        assert_eq!(policer.burst_bytes, 50_000);
        assert_eq!(change("10s:1mbit"), Ok((10_000 * MS, 1_000_000)));
        for wrong in ["101%", "1%@2s", "1", "%"] {
            assert!(loss(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn trace_is_a_change_a_line_and_errors_name_the_line() {
        let changes = trace("# a comment\n0s 10mbit\n\n1.5s  1mbit # less\n");
        assert_eq!(changes, Ok(vec![(Duration::ZERO, 10_000_000), (1_500 * MS, 1_000_000)]));
        let wrong = trace("0s 10mbit\n0s 1mbit");
        assert_eq!(wrong, Err("line 2: expected a later time".to_owned()));
        assert!(trace("1s 10mbit").is_err());
        assert!(trace("0s ten").is_err_and(|error| error.starts_with("line 1: ")));
    }
}
