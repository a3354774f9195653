//! Connection IDs that the server chooses, and the scheme that makes and reads them.
//!
//! Only a scheme knows the length of the IDs and what their bytes mean ([`CidScheme`]). A further one is a file beside
//! `plain.rs` and a choice in [`scheme`].

mod connection_id;
mod plain;
mod scheme;

pub use connection_id::{CidLengthError, ConnectionId, MAX_V1_CID};
use plain::Plain;
pub use scheme::{CidScheme, Owner};

/// Returns the scheme in use, for one endpoint, or for the caller that opens the sockets to ask for its steering.
pub fn scheme() -> Box<dyn CidScheme> {
    Box::new(Plain)
}

#[cfg(test)]
pub(super) mod tests;
