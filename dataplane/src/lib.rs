//! Receives and sends the datagrams of a worker: one contract, several backends.
//!
//! The thread that starts the workers acquires the sockets of each listener ([`Acquired`]) and opens a group of workers
//! ([`open_group`]), which configures the sockets and returns a [`Seed`] per worker. Each worker makes a driver of its seed
//! on its own thread and calls it in a loop: receive, work, transmit, wait. The crate allocates nothing per datagram. The
//! README says how to add a backend.

mod acquire;
mod addr;
mod backends;
mod batch;
mod binding;
mod bpf;
mod cached_read;
mod contract;
mod control;
mod counters;
mod device_port;
mod egress;
mod error;
mod event;
#[cfg(feature = "test-backends")]
pub mod fault;
mod features;
mod group;
mod ingress;
mod initials;
mod interface;
mod lanes;
mod message;
mod meta;
#[cfg(any(test, feature = "test-backends"))]
pub mod offloads;
mod options;
mod ports;
#[cfg(any(test, feature = "test-backends"))]
pub mod requirements;
mod steering;
mod sys;
mod trial;
mod waker;

pub use acquire::{Acquired, TakenSockets};
pub use backends::{Backend, Driver, Opened, Seed, UnknownBackend};
#[cfg(feature = "test-backends")]
pub use backends::{memory, port};
pub use cached_read::read_cached;
pub use contract::Dataplane;
pub use counters::{Counters, FrameCounters};
pub use device_port::{
    DevicePortOptions, PortDevice, PortError, PortFacts, PortFrames, UnknownDevice,
};
pub use egress::{Egress, NoRoom};
pub use error::{BindError, OpenError};
pub use event::{Event, Quote};
pub use features::Features;
pub use group::{Group, ListenerFacts, open_group};
pub use initials::{CidMark, InitialFilter};
pub use interface::{Payloads, addresses, hashes_udp_ports};
pub use meta::{Budget, Ecn, ListenerId, RxMeta, TxMeta};
pub use options::{DriverOptions, SocketOptions};
pub use ports::{OpenedPort, PortHandle, Ports};
pub use steering::Steering;
pub use trial::send_batch;
pub use waker::Waker;
