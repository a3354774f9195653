//! Conversions of numbers that traces contain.

/// Returns a number without its fraction; negative ones and NaN become 0.
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
pub(crate) fn whole(number: f64) -> u64 {
    number as u64
}
