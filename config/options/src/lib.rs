//! Options of algorithms and backends, each described once for configuration, help and checks.

#![forbid(unsafe_code)]

mod declare;
mod set;
mod spec;

pub use declare::Stored;
pub use set::Options;
pub use spec::{OptionError, OptionKind, OptionSpec, Unit, Value};
