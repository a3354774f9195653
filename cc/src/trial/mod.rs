//! Trying a controller with any sequence of events: a byte string becomes a path, options and calls, and after every
//! call the rules of the contract are checked.
//!
//! Two kinds of transport come out of a string. The honest one reports what a real one would, in an order that no real
//! one may ever produce: round trips, losses, marks, pauses, probes, changes of datagram size. The careless one
//! reports what cannot be: packets that never left, flights that do not add up, time that runs backwards. Under the
//! honest one every rule holds; under the careless one a controller may be wrong about the network, but not about
//! itself ([`any_bytes`] says which is which).
//!
//! Every string means something, so that a fuzzer wastes none, and a longer string begins as its prefix does.
//!
//! ```
//! use sluicegate_cc::{Registry, trial};
//!
//! let registry = Registry::builtin();
//! let algorithm = registry.find("cubic").expect("built in");
//! let outcome = trial::any_bytes(algorithm, b"as good as any other").expect("keeps the rules");
//! assert!(outcome.calls > 0);
//! ```

mod bytes;
mod careless;
mod honest;
mod path;
mod rules;

use thiserror::Error;

use crate::{Algorithm, Init, OptionKind, Options, PathChange, Snapshot, Value};
use bytes::Bytes;
use rules::Rules;

/// How a trial went.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Calls to the controller that changed something in it, or could have.
    pub calls: u64,
    /// Whether the transport was the honest one.
    pub honest: bool,
    /// The controller in the end.
    pub last: Snapshot,
}

/// A rule that a controller broke.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{algorithm}, call {call} ({name}): {rule}")]
pub struct Broken {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// Which call, counted from 1.
    pub call: u64,
    /// The function called.
    pub name: &'static str,
    /// What holds no more, with the numbers.
    pub rule: String,
}

/// Drives one controller as `bytes` say.
///
/// Always: the window is two datagrams at least, no curve begins in the future, a pacing rate is above zero and finite,
/// a burst is one datagram at least and 64 KiB at most, and the snapshot says what the accessors say. With the honest
/// transport also: the window grows past its largest value by no more than was acknowledged, and not past twice the
/// largest flight; nothing but loss or marks is counted as congestion or begins a recovery; the time taken out of the
/// growth curve never shrinks and is no longer than the path's life.
///
/// # Errors
///
/// The first rule that was broken.
pub fn any_bytes(algorithm: &Algorithm, bytes: &[u8]) -> Result<Outcome, Broken> {
    let mut bytes = Bytes::new(bytes);
    let honest = bytes.byte() % 4 != 3;
    let init = Init {
        mtu: mtu(&mut bytes),
        initial_window_packets: u64::from(bytes.byte() % 100) + 1,
        seed: u64::from(bytes.byte()),
    };
    let options = options(algorithm, &mut bytes);
    let controller = algorithm.controller(&init, &options);
    let rules = Rules::new(algorithm.name, controller.as_ref(), init.mtu, honest);
    if honest {
        honest::run(controller, rules, init.mtu, &mut bytes)
    } else {
        careless::run(controller, rules, &mut bytes)
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
