//! Property checks: drives a controller with any sequence of events and checks the contract's rules after every call.
//!
//! A byte string becomes a path, options and calls. Its first byte picks one of two transports. The *consistent* one
//! reports what a real transport could, in an order that no real one may ever produce: round trips, losses, CE marks,
//! pauses, probes, changes of datagram size and address. The *arbitrary* one reports impossible things: packets that
//! never left, bytes in flight that do not add up, time that runs backwards. Under the consistent one every rule holds;
//! under the arbitrary one a controller may be wrong about the network, but not about itself ([`any_bytes`] lists both).
//!
//! Every string has a meaning, so that a fuzzer wastes none, and a longer string begins as its prefix does.
//!
//! ```
//! use sluicegate_cc::Registry;
//! use sluicegate_sim::properties;
//!
//! let registry = Registry::builtin();
//! let algorithm = registry.find("cubic").expect("built in");
//! let outcome = properties::any_bytes(algorithm, b"as good as any other").expect("keeps the rules");
//! assert!(outcome.calls > 0);
//! ```

mod arbitrary;
mod bytes;
mod consistent;
mod outcome;
mod parameters;
mod path;
mod rules;

use sluicegate_cc::{Algorithm, Init};

use bytes::Bytes;
pub use outcome::{Outcome, Violation};
use parameters::{mtu, options};
use rules::Rules;

/// Drives a controller of `algorithm` as `bytes` say.
///
/// With both transports: the window is at least two datagrams, no growth curve begins in the future, a pacing rate is
/// above zero and finite, a burst is at least one datagram and at most 64 KiB, and the snapshot agrees with the
/// accessors. With the consistent transport also: the window passes its largest value by no more than was acknowledged,
/// and never twice the most bytes in flight; only losses, CE marks and persistent congestion count as congestion or
/// begin recovery; the time excluded from the growth curve never shrinks and never exceeds the path's life.
///
/// # Errors
///
/// Returns the first rule that was violated.
pub fn any_bytes(algorithm: &Algorithm, bytes: &[u8]) -> Result<Outcome, Violation> {
    any_bytes_given(algorithm, 0, bytes)
}

/// As [`any_bytes`], for controllers that may take windows of up to `given` bytes from elsewhere without earning them.
///
/// # Errors
///
/// Returns the first rule that was violated.
pub fn any_bytes_given(
    algorithm: &Algorithm,
    given: u64,
    bytes: &[u8],
) -> Result<Outcome, Violation> {
    let mut bytes = Bytes::new(bytes);
    let consistent = bytes.byte() % 4 != 3;
    let init = Init {
        mtu: mtu(&mut bytes),
        initial_window_packets: u64::from(bytes.byte() % 100) + 1,
        seed: u64::from(bytes.byte()),
    };
    let options = options(algorithm, &mut bytes);
    let controller = algorithm.controller(&init, &options);
    let rules = Rules::new(algorithm.name, controller.as_ref(), init.mtu, consistent);
    let rules = rules.given(given);
    if consistent {
        consistent::run(controller, rules, init.mtu, &mut bytes)
    } else {
        arbitrary::run(controller, rules, &mut bytes)
    }
}
