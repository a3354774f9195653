//! QUIC: connections, how datagrams find them, and what stands around quiche.

mod activity;
pub mod application;
pub mod cid;
pub mod connection;
pub mod connection_gauges;
pub mod counters;
pub mod ecn;
pub mod endpoint;
mod expiry;
mod half_open;
pub mod header;
mod holders;
pub mod initials;
mod path_size;
mod prefetch;
mod progress;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
pub mod rate_limit;
mod rates;
pub mod refusal;
mod relief;
pub mod reset;
pub mod settings;
pub mod timers;
pub mod token;
pub mod transport;
pub mod version;
