//! Parameters of a run from a byte string.

use sluicegate_cc::{Algorithm, OptionKind, Options, PathChange, Value};

use super::bytes::Bytes;

/// Datagram sizes: QUIC's smallest, those of common paths, jumbo frames, and the largest there is.
pub(super) fn mtu(bytes: &mut Bytes<'_>) -> u64 {
    const SIZES: [u64; 8] = [1_200, 1_252, 1_350, 1_452, 1_472, 4_096, 8_972, 65_527];
    SIZES[usize::from(bytes.byte()) % SIZES.len()]
}

/// Returns a change of the peer's port, or of its address.
pub(super) fn path_change(bytes: &mut Bytes<'_>) -> PathChange {
    if bytes.byte().is_multiple_of(2) { PathChange::Port } else { PathChange::Address }
}

/// Half of the options at their defaults, the others anywhere within their bounds, the ends more often.
pub(super) fn options(algorithm: &Algorithm, bytes: &mut Bytes<'_>) -> Options {
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
            OptionKind::Choice { among, .. } => {
                Value::Choice(among[usize::from(byte) % among.len()])
            }
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
