//! Values of the parameters of requests. An error names the parameter and the expected value in one line.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Reads a whole number.
pub(super) fn number<T>(name: &str, value: &str, among: RangeInclusive<T>) -> Result<T, String>
where
    T: Display + FromStr + PartialOrd,
{
    let number = value.parse().ok().filter(|number| among.contains(number));
    number.ok_or_else(|| {
        let (least, most) = (among.start(), among.end());
        format!("`{name}` is `{value}`; expected a whole number from {least} to {most}\n")
    })
}

/// Reads one of these words.
pub(super) fn word<'k, T>(
    name: &str,
    value: &str,
    known: impl Iterator<Item = (&'k str, T)> + Clone,
) -> Result<T, String> {
    let found = known.clone().find(|(word, _)| *word == value);
    found.map(|(_, meaning)| meaning).ok_or_else(|| {
        let words: Vec<_> = known.map(|(word, _)| word).collect();
        let words = words.join(", ");
        format!("`{name}` is `{value}`; expected one of: {words}\n")
    })
}

/// Returns the reason to refuse a parameter that comes again.
pub(super) fn twice(name: &str) -> String {
    format!("`{name}` comes twice; give it once\n")
}
