//! TLS of listeners over QUIC and TCP: certificates, their choice by the client's name (SNI), session tickets.

mod compression;
mod contexts;
mod error;
mod identity;
mod options;
pub mod sni;
mod tickets;
mod validity;

pub use contexts::ListenerTls;
pub use error::TlsError;
pub use identity::{CertificateSummary, Identities, Identity};
pub use options::TlsOptions;
pub use sni::Alternatives;
