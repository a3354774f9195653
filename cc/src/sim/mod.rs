//! A deterministic network for trying algorithms: senders, one bottleneck, receivers, and time that is only counted.
//!
//! [`Simulation`] runs flows over a [`Link`]. The sender is that of RFC 9002 (packet and time thresholds, PTO, persistent
//! congestion), it honours the pacing rate and reports a lack of data as a real transport would. Data counts in whole
//! datagrams, headers are not modelled, and there is no handshake and no flow control. The same seed gives the same
//! run.

mod link;
mod outcome;
mod receiver;
mod rng;
mod rtt;
mod run;
mod sender;
mod sent;
mod source;

pub use link::{Link, LossWindow, Policer, Reorder};
pub use outcome::{FlowOutcome, Sample, Transition};
pub use rng::Rng;
pub use run::{Flow, Simulation};
pub use source::Source;
