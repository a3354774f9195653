//! The admin address: health, readiness, metrics, connections and profiles over HTTP/1.1.
//!
//! A thread of its own serves it, without authentication. Everything is bounded: connections, the time of each, the size of a head;
//! bodies are refused.
//!
//! Workers count in plain structs of their own (see [`observe::metrics`](sluicegate_base::observe::metrics)). A scrape asks each of them
//! through its mailbox; the worker replies in its turn with a copy, so a scrape costs a worker one copy and no lock. Figures
//! of a worker are fields of [`WorkerStats`](crate::worker::WorkerStats), all others of [`Sources`].

mod allocator;
mod client_filter;
mod connections;
mod cross_site;
mod dashboard;
mod deadline;
mod flamegraph;
mod form;
mod pages;
mod parameters;
mod places;
mod process;
mod response;
mod scrape;
mod server;
mod switch;
mod traces;
mod worker_queries;
mod workers;

pub use connections::Connections;
pub use flamegraph::Profiles;
pub use pages::AdminState;
pub use scrape::{Scraper, Sources};
pub use server::{AdminError, AdminServer};
pub use traces::Traces;
pub use worker_queries::WorkerQueries;
