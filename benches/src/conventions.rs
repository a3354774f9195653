//! Constants that all runs share.

use std::time::Duration;

use sluicegate_cc::Init;

/// Datagrams, bytes of UDP payload.
pub(crate) const DATAGRAM: u64 = 1_200;

/// Bytes of the body in a full datagram: what headers and the tag leave.
pub(crate) const BODY_PER_DATAGRAM: u64 = 1_157;

/// Time between two samples.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// Longer than any run: an idle timeout is not what is tried.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Sets apart the random numbers of the two directions of a link.
pub(crate) const UP_SEED: u64 = 0x5bd1_e995_7f4a_7c15;

/// Sets the random numbers of the ends apart from those of the link.
pub(crate) const ENDS_SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// Returns how a controller of the simulator starts.
pub(crate) const fn init(seed: u64) -> Init {
    Init { mtu: DATAGRAM, initial_window_packets: 10, seed }
}
