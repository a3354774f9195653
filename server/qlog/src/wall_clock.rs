//! The wall clock time of a trace.

use jiff::Timestamp;
use serde_json::Value;

use crate::number::whole;
use crate::reader::TraceHeader;

/// Time since 1970, ms, from which a time counts from 1970: in 1973. What is less counts from the reference time.
const ABSOLUTE: f64 = 1e11;
/// Last time since 1970 that is one, ms: in the year 9000.
const LAST: f64 = 2.2e14;

/// Returns the time since 1970 of an event of a trace, ms, by its time in the file, ms; `None` if the trace does not tell.
pub(crate) fn of_event(header: &TraceHeader, time: f64) -> Option<f64> {
    let is_absolute = |ms: &f64| (ABSOLUTE..=LAST).contains(ms);
    if is_absolute(&time) {
        return Some(time);
    }
    let common = header.trace.get("common_fields")?;
    let reference = match common.get("reference_time")? {
        // From 1970, which draft 13 says in the epoch.
        Value::Object(reference) => {
            let time = |key: &str| milliseconds(reference.get(key)?.as_str()?);
            time("wall_clock_time").or_else(|| time("epoch"))
        }
        number => number.as_f64().filter(is_absolute),
    };
    reference.map(|reference| reference + time).filter(is_absolute)
}

fn milliseconds(text: &str) -> Option<f64> {
    let time: Timestamp = text.parse().ok()?;
    Some(time.as_microsecond() as f64 / 1e3)
}

/// Returns a time since 1970 as RFC 3339 has it; `None` if it is out of all bounds.
pub(crate) fn text(ms: f64) -> Option<String> {
    let micros = i64::try_from(whole(ms * 1e3)).ok()?;
    Some(Timestamp::from_microsecond(micros).ok()?.to_string())
}
