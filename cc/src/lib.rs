//! Congestion control algorithms for Sluicegate.
//!
//! The crate holds algorithms and nothing else: no clock, no I/O, no global randomness, no knowledge of any QUIC
//! library. A transport reports to a [`Controller`] what happened, with the time it happened, and asks it for a window
//! and a pacing rate.

#![forbid(unsafe_code)]

mod algorithm;
mod algorithms;
mod careful_resume;
mod controller;
mod event;
mod idle;
mod layer;
mod limits;
mod loss_based;
mod pacing;
mod persistent;
mod prr;
mod recovery;
mod registry;
mod rounding;
mod slow_start;
mod time;
mod usage;

pub use algorithm::{Algorithm, Init};
pub use careful_resume::{CarefulResume, Observation, PathCapacity, PathMemory, ResumeEvent};
pub use controller::{AdoptedWindow, Controller, Model, Snapshot, State};
pub use event::{EcnCounts, Event, Packet, PacketState, PathChange, Rtt, Sent};
pub use layer::Layer;
pub use limits::{MAX_INITIAL_DATAGRAM, MAX_MTU, MAX_QUANTUM, MAX_WINDOW};
pub use persistent::PersistentCongestion;
pub use registry::{DuplicateName, Registry};
pub use sluicegate_options::{OptionError, OptionKind, OptionSpec, Options, Unit, Value};
pub use time::Time;
