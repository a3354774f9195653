//! The Sluicegate server: an HTTP/3 edge server whose congestion control can be chosen per listener.
//!
//! The binary is a thin shell around this library; benchmarks run its endpoint and its sessions without a network.

pub mod acme;
pub mod admin;
pub mod boot;
pub mod cli;
mod doctor;
pub mod h3;
mod handover;
mod https;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod properties;
pub mod snapshot;
pub mod tcp;
pub mod telemetry;
pub mod worker;

/// Lets tests count what a thread allocates. AddressSanitizer and Miri check the memory of their own allocators alone.
#[cfg(all(test, not(any(asan, miri))))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
