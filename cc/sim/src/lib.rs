//! Tries congestion control algorithms. [`properties`] drives a controller with any sequence of events; the rest of the crate is a
//! deterministic network: senders, one bottleneck, receivers, and time that is only counted.
//!
//! [`Simulation`] runs flows over a [`Bottleneck`]. The sender is that of RFC 9002 (packet and time thresholds, PTO, persistent
//! congestion); it follows the pacing rate and reports a lack of data, late acknowledgements, ECN counts and changes of the peer's
//! address as a real transport would. Data counts in whole datagrams, headers are not modelled, and there is no handshake, and flow
//! control only where a flow asks for it. The same seed gives the same run.
//!
//! ```
//! use std::time::Duration;
//!
//! use sluicegate_sim::{Flow, Bottleneck, LossWindow, Simulation, Source};
//! use sluicegate_cc::{Init, Registry};
//!
//! let bottleneck = Bottleneck {
//!     loss: vec![LossWindow::always(0.01)],
//!     ..Bottleneck::new(10_000_000, Duration::from_millis(40), 1.0)
//! };
//! let registry = Registry::builtin();
//! let cubic = registry.find("cubic").expect("built in");
//! let init = Init { mtu: 1_200, initial_window_packets: 10, seed: 1 };
//! let outcomes = Simulation::new(bottleneck, 1)
//!     .with(Flow::new(Source::Bulk(1_000_000)), cubic.controller(&init, &cubic.defaults()))
//!     .run(Duration::from_secs(30));
//! assert!(outcomes[0].completed.is_some());
//! ```

#![forbid(unsafe_code)]

mod application;
mod aqm;
mod aqm_queue;
mod bottleneck;
mod cellular;
mod fifo;
mod flow;
mod loss;
mod outcome;
pub mod properties;
mod receiver;
mod rng;
mod rtt;
mod run;
mod sender;
mod sent;
mod source;
mod stalls;
mod steady;
mod transmitter;

pub use application::{Pages, ReceiveWindow};
pub use aqm::{Aqm, Ecn, QueuedPacket};
pub use aqm_queue::AqmQueue;
pub use bottleneck::{AckPath, Bottleneck, BottleneckQueue, Delivery, Policer, Reorder};
pub use cellular::Cellular;
pub use flow::Flow;
pub use loss::{GilbertElliott, LossWindow};
pub use outcome::{FlowOutcome, Sample, Transition};
pub use rng::Rng;
pub use run::Simulation;
pub use source::Source;
pub use stalls::Stalls;
pub use steady::{FixedWindow, SteadyPath};
