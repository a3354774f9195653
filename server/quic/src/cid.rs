//! Connection IDs that the server chooses, and the scheme that makes and reads them.
//!
//! Only a scheme knows the length of the IDs and what their bytes mean ([`CidScheme`]); `layout.rs` has what all share. A further one is a file
//! beside `katran.rs`, a choice in `configured.rs`, and a word in `config/src/tables/connection_ids.rs`.

mod configured;
mod connection_id;
mod katran;
mod layout;
mod plain;
#[cfg(any(test, feature = "test-fixtures"))]
pub mod properties;
mod quic_lb;
mod scheme;

pub use configured::{CidError, CidSchemes, CidSurroundings};
pub use connection_id::{CidLengthError, ConnectionId, MAX_V1_CID};
pub use scheme::{CidPurpose, CidScheme, Owner};

#[cfg(test)]
pub(super) mod tests;
