//! Safe Rust over the parts of DPDK that a server of UDP needs: the library's start, ports with a queue pair per worker,
//! and buffers that frames are received into and sent from without a copy.
//!
//! `shim.c` has the inline functions of the library's headers behind plain types; this crate has the ownership. An [`Mbuf`]
//! is owned: dropped it is freed, sent it is consumed. A [`Queue`] belongs to one thread. The memory of a port's buffers is
//! freed only after the last of them came back.
//!
//! Without the feature `libdpdk` the crate is empty and needs nothing installed.
#![cfg(feature = "libdpdk")]

mod device;
mod eal;
mod error;
mod ffi;
mod log;
mod mbuf;
mod pool;
mod port;
mod queue;

pub use device::{Device, PortFacts, PortOptions, PortStats};
pub use eal::{Eal, EalOptions, Registered};
pub use error::Error;
pub use ffi::BURST;
pub use log::take_messages;
pub use mbuf::{Batch, Checksum, Mbuf, TxOffload, headroom};
pub use port::Port;
pub use queue::Queue;
