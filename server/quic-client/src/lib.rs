//! A client of HTTP/3 over QUIC without I/O: [`Http3Client`] takes datagrams and times, and returns datagrams and events. Beside it is a
//! [`BatchSocket`], by which programs drive it.

mod batches;
mod client;
mod closed;
mod config;
mod session;
mod socket;
#[cfg(test)]
mod tests;
mod trust;
mod url;

use std::time::Instant;

pub use batches::{BatchLimits, Flushed};
pub use client::{BodySent, Event, Http3Client, ServerName, Step, random_id};
pub use closed::{Cause, CloseReason, Closed, NO_ERROR, readable};
pub use config::{Limits, config};
pub use quiche::cc::Factory;
pub use quiche::h3::{Header, NameValue};
pub use quiche::{Config, Ecn};
pub use session::{SavedSession, Unusable};
pub use socket::{BATCH, BatchSocket, Buffers, Sent};
pub use trust::Trust;
pub use url::{Url, as_https};

/// Sets the time of this thread's clients, which their owner calls at the start of a turn. Without one, they read the clock.
pub fn set_time(now: Option<Instant>) {
    quiche::clock::set(now);
}
