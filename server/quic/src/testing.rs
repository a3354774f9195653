//! Endpoints, clients and time of their own, for tests of this crate and of applications.

mod attack;
mod bench;
mod pages;
mod plain;

pub use attack::{Attack, Peer, UNIX, hear, meta_of, with_early_data};
pub use bench::{Bench, Client, FullSocket};
pub use pages::{PageCounters, PageSession, Pages, Reply, Request};
pub use plain::{plain, settings};
