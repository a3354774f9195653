//! Safe Rust over the parts of DPDK that a server of UDP needs: the library's start, ports with a queue pair per worker,
//! and buffers that frames are received into and sent from without a copy.
//!
//! `shim.c` has the inline functions of the library's headers behind plain types; this crate has the ownership. An [`Mbuf`]
//! is owned: dropped it is freed, sent it is consumed. A [`Queue`] and its buffers belong to one thread. Each keeps its port
//! open, and a port keeps the environment running, so neither ends before the last of them is gone.
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
mod port_ref;
mod queue;
mod xdp;

pub use device::{Device, PortFacts, PortOptions, PortStats};
pub use eal::{Eal, EalOptions, version};
pub use error::Error;
pub use ffi::BURST;
pub use log::take_messages;
pub use mbuf::{Batch, Checksum, Mbuf, TxOffload, headroom};
pub use port::Port;
pub use queue::{Queue, QueueSeed};
pub use xdp::{XdpFrames, XdpOptions};
