//! The part of a connection ID that a load balancer routes by: what a server writes, and what a balancer reads.

mod katran;
mod quic_lb;

pub use katran::{HostId, HostIdError};
pub use quic_lb::{
    EncodeError, KEY_LEN, Lengths, MAX_PLAINTEXT, MIN_NONCE, Plaintext, QuicLb, QuicLbError,
    SelfLength, UNROUTABLE, config_of, first_octet,
};

/// A buffer or a part of an ID has another length than the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a part of a connection ID has another length than its format says")]
pub struct LengthError;
