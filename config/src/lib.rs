//! Configuration of Sluicegate: a TOML file in, checked and typed values out.
//!
//! Each key is declared once, as a field of a table's struct: type, unit, bounds, default, sentence, and whether a reload
//! applies a change of it. The parser, the printer, the manual, the JSON Schema and the check of a reload read that declaration. An
//! error names the place, what was found, what was expected, and the nearest valid word. The server checks what needs the
//! machine: whether a file exists, how many cores there are.

#![forbid(unsafe_code)]

#[macro_use]
mod declare;
mod congestion;
mod environment;
mod error;
mod expectation;
mod field;
mod header_fields;
mod included;
mod json_schema;
mod load;
mod locate;
mod manual;
mod mistakes;
mod once;
mod parse;
mod print;
mod redirects;
mod scalars;
mod schema;
mod section;
mod source;
mod tables;
mod template;
#[cfg(test)]
mod tests;
mod units;
mod value;
mod words;

pub use congestion::CongestionControl;
pub use error::{Error, Others, Position};
pub use json_schema::json_schema;
pub use load::check_regular;
pub use locate::{Place, Step, locate};
pub use manual::manual;
pub use redirects::{MAX_REDIRECTS, RedirectEntry, read_redirects};
pub use sluicegate_dataplane::{Backend, DriverOptions, SocketOptions};
pub use tables::*;
pub use template::{Part, Placeholder, Template};
pub use units::parse_size;
