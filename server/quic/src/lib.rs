//! QUIC below any application protocol: connections, the lookup of a datagram's connection, admission and tokens.
//!
//! [`Endpoint`](endpoint::Endpoint) has all connections of one worker; an [`Application`](application::Application) handles their streams.

mod activity;
pub mod application;
pub mod cid;
pub mod congestion;
pub mod connection;
pub mod connection_gauges;
pub mod counters;
pub mod ecn;
pub mod ended_connections;
pub mod endpoint;
mod expiry;
pub mod header;
mod holders;
mod path_size;
mod prefetch;
mod progress;
#[cfg(any(test, feature = "test-fixtures"))]
#[doc(hidden)]
pub mod properties;
mod rates;
pub mod recorder;
pub mod refusal;
pub mod reset;
pub mod settings;
#[cfg(any(test, feature = "test-fixtures"))]
#[doc(hidden)]
pub mod testing;
pub mod timers;
pub mod token;
pub mod transport;
pub mod version;

/// Lets tests count what a thread allocates. AddressSanitizer and Miri check the memory of their own allocators alone.
#[cfg(all(test, not(any(asan, miri))))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
