//! Every algorithm in every scenario, in the simulator and through real connections.
//!
//! [`scenarios`] is the table; [`cells`] runs it, or a part of it; [`surprises`] compares with the failures that are
//! known and understood. The algorithms are those of the registry, so a new one is in the matrix once it is
//! registered.

mod bound;
mod cell;
mod expected;
mod measure;
mod plot;
mod record;
mod report;
mod results;
mod run;
mod scenario;
mod slow_starts;
mod story;
mod surprises;
mod table;

pub use bound::{Bound, Limit, Measure, Who};
pub use cell::{Cell, Figure};
pub use expected::{EXPECTED, Expected};
pub use plot::PlotError;
pub use record::{Point, Record};
pub use report::{Layout, known_failures, replay, table as report};
pub use results::document;
pub use run::{Choice, MatrixError, cells, control_named, record};
pub use scenario::{CrossTraffic, Effort, Efforts, For, Place, Scenario};
pub use story::tell;
pub use surprises::surprises;
pub use table::scenarios;
