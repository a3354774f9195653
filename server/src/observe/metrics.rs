//! Figures for Prometheus.
//!
//! Threads count in plain structs of their own. Every struct with figures implements [`Show`], next to its fields.

mod page;

pub use page::{CONTENT_TYPE, Family, Page, Show};
