//! The parser, with configurations that it accepts and refuses.

mod any_bytes;
mod refusals;
