//! QUIC: connections, how datagrams find them, and what stands around the engine.

pub mod cc_adapter;
pub mod cid;
pub mod entropy;
pub mod header;
pub mod rate_limit;
pub mod reset;
pub mod secrets;
pub mod token;
pub mod version;
