//! What operators can see of the server.

pub mod access;
mod background;
pub mod histogram;
pub mod metrics;
pub mod phase;
pub mod qlog;
pub(crate) mod question;
pub mod sum;
pub mod totals;
