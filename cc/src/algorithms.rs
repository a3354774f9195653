//! The built-in algorithms: a module and a line in the list for each.

mod bbr3;
mod cubic;
mod prague;
mod reno;

use crate::algorithm::Algorithm;

/// Every built-in algorithm, in the order in which help and configuration list them.
pub(crate) const BUILTIN: &[Algorithm] =
    &[cubic::ALGORITHM, reno::ALGORITHM, bbr3::ALGORITHM, prague::ALGORITHM];
