//! CUBIC with each kind of slow start, and the names by which bounds and known failures refer to it.

use sluicegate_cc::Value;

use crate::virtual_net::{ConfiguredAlgorithm, Control};

/// Nothing ends slow start early. `Measure::LostOverStandard` compares with it.
pub(super) const STANDARD: Control = Control::Ours(ConfiguredAlgorithm {
    algorithm: "cubic",
    options: &[("slow_start", Value::Choice("standard"))],
});
/// HyStart++ (RFC 9406).
pub(super) const HYSTART: Control = Control::Ours(ConfiguredAlgorithm {
    algorithm: "cubic",
    options: &[("slow_start", Value::Choice("hystart++"))],
});
/// SEARCH (draft-chung-ccwg-search-09).
pub(super) const SEARCH: Control = Control::Ours(ConfiguredAlgorithm {
    algorithm: "cubic",
    options: &[("slow_start", Value::Choice("search"))],
});

/// Name of [`STANDARD`].
pub(super) const BY_STANDARD: &[&str] = &["cubic,slow_start=standard"];
/// Name of [`HYSTART`].
pub(super) const BY_HYSTART: &[&str] = &["cubic,slow_start=hystart++"];
/// Name of [`SEARCH`].
pub(super) const BY_SEARCH: &[&str] = &["cubic,slow_start=search"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_controls() {
        for (control, name) in [(STANDARD, BY_STANDARD), (HYSTART, BY_HYSTART), (SEARCH, BY_SEARCH)]
        {
            assert_eq!([control.to_string()], name);
        }
    }
}
