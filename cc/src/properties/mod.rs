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
//! use sluicegate_cc::{Registry, properties};
//!
//! let registry = Registry::builtin();
//! let algorithm = registry.find("cubic").expect("built in");
//! let outcome = properties::any_bytes(algorithm, b"as good as any other").expect("keeps the rules");
//! assert!(outcome.calls > 0);
//! ```

mod arbitrary;
mod bytes;
mod consistent;
mod path;
mod rules;

use thiserror::Error;

use crate::{Algorithm, Init, OptionKind, Options, PathChange, Snapshot, Value};
use bytes::Bytes;
use rules::Rules;

/// Summary of a run in which every rule held.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Calls to the controller that change something in it, or could.
    pub calls: u64,
    /// Whether the consistent transport drove the controller.
    pub consistent: bool,
    /// The controller's state at the end.
    pub last: Snapshot,
}

/// A rule that a controller violated.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{algorithm}, call {call} ({name}): {rule}")]
pub struct Violation {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// Number of the call, counted from 1.
    pub call: u64,
    /// Name of the function called.
    pub name: &'static str,
    /// The rule, with the offending numbers.
    pub rule: String,
}

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
    if consistent {
        consistent::run(controller, rules, init.mtu, &mut bytes)
    } else {
        arbitrary::run(controller, rules, &mut bytes)
    }
}

/// Datagram sizes: QUIC's smallest, those of common paths, jumbo frames, and the largest there is.
fn mtu(bytes: &mut Bytes<'_>) -> u64 {
    const SIZES: [u64; 8] = [1_200, 1_252, 1_350, 1_452, 1_472, 4_096, 8_972, 65_527];
    SIZES[usize::from(bytes.byte()) % SIZES.len()]
}

/// A change of the peer's port, or of its address.
fn path_change(bytes: &mut Bytes<'_>) -> PathChange {
    if bytes.byte().is_multiple_of(2) {
        PathChange::Port
    } else {
        PathChange::Address
    }
}

/// Half of the options at their defaults, the others anywhere within their bounds, the ends more often.
fn options(algorithm: &Algorithm, bytes: &mut Bytes<'_>) -> Options {
    let mut options = algorithm.defaults();
    for spec in algorithm.options {
        let byte = bytes.byte();
        if byte < 128 {
            continue;
        }
        let part = match byte - 128 {
            0..32 => 0.0,
            32..64 => 1.0,
            inner => f64::from(inner - 64) / 63.0,
        };
        let value = match spec.kind {
            OptionKind::Boolean { .. } => Value::Boolean(part >= 0.5),
            OptionKind::Number { min, max, .. } => {
                Value::Number((min + part * (max - min)).min(max))
            }
            OptionKind::Integer { min, max, .. } => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a part of a whole number, rounded"
                )]
                let above = (part * (max - min) as f64) as u64;
                Value::Integer(min.saturating_add(above).min(max))
            }
        };
        debug_assert!(options.set(spec.name, value).is_ok(), "within bounds");
        let _ = options.set(spec.name, value);
    }
    options
}
