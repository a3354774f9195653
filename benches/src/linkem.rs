//! An emulated link for real traffic: any client and any server, and the kernel's own TCP, share one bottleneck.
//!
//! [`Network`] makes two network namespaces, each with a TUN device. An [`Emulator`] carries IP packets from one to the other over
//! a [`Link`], which is the simulator's bottleneck with real packets. Without the rights to make namespaces, [`relay`] takes the
//! place of the devices for UDP. [`Link`] itself has no clock: tests drive it in virtual time.

mod emulator;
mod histogram;
mod link;
mod namespace;
mod network;
pub mod notation;
mod options;
mod packet;
mod port;
mod process;
mod realtime;
mod report;

pub use emulator::{Emulator, Ended};
pub use histogram::Histogram;
pub use link::{Direction, End, INTERVAL, Link, Tally};
pub use namespace::Namespace;
pub use network::{CLIENT, Network, NetworkError, SERVER};
pub use options::{LinkOptions, OptionError};
pub use packet::Flow;
pub use port::{Port, RelayListener, RelayUpstream, Tun, relay};
pub use process::{Group, end_with_signals, wait};
pub use realtime::{Priority, prioritize};

pub(crate) use realtime::await_readable;
