//! Instructions of common work, which callgrind counts, compared with figures in the repository.
//!
//! `src/bin/counts.rs` runs itself under callgrind for each [`Workload`]. Callgrind finds the sections to count by the
//! name of a function (`src/counted.rs`): neither setting up nor the other end is among them. `README.md` says what makes the figures the same on every
//! machine, and what does not.

mod baseline;
mod callgrind;
mod controllers;
mod made_by;
mod proxy;
mod report;
mod router;
mod site;
mod workload;

pub use baseline::{Baseline, BaselineError};
pub use callgrind::{Callgrind, CountError};
pub use made_by::made_by;
pub use report::{ALLOWED, Figure, Report};
pub use workload::{Workload, all};
