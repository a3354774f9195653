//! Bounds that every algorithm shares.

/// Largest window, bytes, so that no arithmetic on windows overflows.
pub const MAX_WINDOW: u64 = 1 << 40;

/// Largest UDP payload, bytes.
pub const MAX_MTU: u64 = 65_535;

/// Largest burst, bytes: one GSO send.
pub const MAX_QUANTUM: u64 = 65_536;

/// Largest datagram that the initial window counts, bytes: ten make the 14,720 bytes of RFC 9002 §7.2.
pub const MAX_INITIAL_DATAGRAM: u64 = 1_472;
