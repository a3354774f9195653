//! The admin address: whether the server is up, whether it takes requests, what it counted. HTTP/1.1 for machines.
//!
//! One thread of its own serves it, and whoever can reach the address may ask. Everything is bounded: connections, the time
//! that each may take, the size of a head; bodies are refused.
//!
//! Workers count in plain structs of their own (see [`observe::metrics`](crate::observe::metrics)). A scrape asks each of them
//! through its mailbox; the worker replies in its turn with a copy, so a scrape costs a worker one copy and no lock. Figures
//! of a worker are fields of [`WorkerStats`](crate::worker::WorkerStats), all others of [`Sources`].

mod allocator;
mod pages;
mod process;
mod scrape;
mod server;
mod workers;

pub use pages::AdminState;
pub use scrape::{Scraper, Sources};
pub use server::{AdminError, start};
