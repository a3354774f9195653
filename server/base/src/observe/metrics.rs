//! Figures for Prometheus.
//!
//! Threads count in plain structs of their own. `metrics!` declares such a struct: what a field counts, and the family by
//! which the page shows it, stand in one place. Figures of another form implement [`Show`].

mod carried;
mod declare;
mod labels;
mod page;

pub use carried::Carried;
pub use declare::metrics;
pub use declare::{Figure, LabelValues, Labelled, Labels, Metrics};
pub use labels::labels;
pub use labels::{Label, PerLabel};
pub use page::{CONTENT_TYPE, Page, Show};
