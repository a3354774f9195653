//! Certificates by ACME (RFC 8555): obtained and renewed on a thread of its own, kept in the state directory, and the responses
//! to an authority's challenges.
//!
//! Several instances may share the folder. The one that holds its lock asks for a certificate; every one notices the file that it
//! writes, and every one responds to challenges.

mod authority;
mod challenges;
mod dns;
mod error;
mod https;
mod issued;
mod keys;
mod order;
mod renewer;
mod schedule;
mod settings;
mod store;

pub use challenges::{Challenges, PROTOCOL};
pub use renewer::Renewals;
pub use settings::AcmeSettings;
pub use store::AcmeStore;
