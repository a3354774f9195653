//! The Sluicegate server: an HTTP/3 edge server whose congestion control can be chosen per listener.
//!
//! The binary is a thin shell around this library; the load tools use its client role.

pub mod boot;
pub mod cli;
mod clients;
pub mod clock;
pub mod exchange;
pub mod files;
pub mod h3;
pub mod observe;
pub mod origin;
pub mod quic;
pub mod route;
pub mod signal;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod trial;
pub mod worker;
