//! Rounds floating point to whole bytes.

/// Returns the whole part of an amount of bytes, or of bytes per second. A negative amount becomes 0, and one past the
/// range its end.
pub(crate) const fn whole(amount: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates at both ends, and a fraction of a byte does not matter"
    )]
    let whole = amount as u64;
    whole
}
