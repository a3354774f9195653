//! What QUIC, HTTP and the process around them share: addresses and clients, clock and randomness, secrets and TLS,
//! metrics and logs.

pub mod address;
pub mod affinity;
pub mod clients;
pub mod clock;
pub mod descriptors;
pub mod entropy;
pub mod hash;
pub mod keys;
pub mod named_file;
pub mod networks;
pub mod observe;
pub mod overload;
#[cfg(any(test, feature = "test-fixtures"))]
#[doc(hidden)]
pub mod properties;
pub mod secrets;
pub mod self_signed;
pub mod signing;
pub mod state_file;
pub mod tls;
pub mod token_bucket;
