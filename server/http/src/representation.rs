//! The selected representation of a resource (RFC 9110 §3.2): its metadata, preconditions, ranges, and the response to a GET or HEAD.
//!
//! It knows neither where the bytes come from nor who keeps them. All of it works without I/O.

mod condition;
mod field_value;
#[cfg(any(test, feature = "test-fixtures"))]
pub(crate) mod fixture;
mod metadata;
mod plan;
#[cfg(any(test, feature = "test-fixtures"))]
pub(crate) mod properties;
mod range;

pub(crate) use field_value::visible;
pub use metadata::{Metadata, Representation};
pub(crate) use plan::{Piece, ResponsePlan, refuse_method, reply_from_memory, respond, slice};
