//! A QUIC client for tests that can break every rule: see the crate's README.

#![expect(clippy::missing_panics_doc, reason = "a test stops where something is not as expected")]

mod client;
mod frame;
pub mod http3;
mod keys;
mod packet;
mod parameters;
mod ranges;
mod retry;
mod socket;
mod stream;
mod tls;
mod varint;

pub use client::{Client, Policy, Setup};
pub use frame::Frame;
pub use packet::PacketKind;
pub use parameters::Parameters;
pub use socket::Socket;
pub use stream::ReceivedStream;
pub use tls::Tls;
pub use varint::{Reader, varint};
