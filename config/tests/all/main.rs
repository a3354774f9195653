//! What the parser accepts, and what it says of the rest.

mod any_bytes;
mod refusals;
