//! Figures for Prometheus.
//!
//! Workers count in plain structs of their own. A scrape asks each of them by its mailbox, and it answers in its turn with a
//! copy; what is summed up and written down here costs no worker anything. Every struct with figures implements [`Show`],
//! next to its fields. Those that a worker owns stand in [`WorkerStats`](crate::worker::WorkerStats), all others in [`Sources`].

mod allocator;
mod page;
mod process;
mod scrape;
mod workers;

pub use page::{CONTENT_TYPE, Family, Page, Show};
pub use scrape::{Scraper, Sources};
pub use workers::WorkerHandle;

#[cfg(test)]
mod tests;
