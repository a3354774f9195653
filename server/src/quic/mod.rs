//! QUIC: connections, how datagrams find them, and what stands around the engine.

mod admission;
pub mod cc_adapter;
pub mod census;
pub mod cid;
pub mod connection;
pub mod counters;
pub mod edition;
pub mod endpoint;
pub mod entropy;
pub mod header;
pub mod rate_limit;
pub mod reset;
pub mod secrets;
pub mod selection;
pub mod self_signed;
pub mod settings;
mod stateless;
mod tickets;
pub mod timers;
pub mod token;
pub mod transport;
#[cfg(any(test, fuzzing))]
pub(crate) mod trial;
pub mod version;
