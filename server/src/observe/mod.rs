//! What operators can see of the server.

pub mod admin;
pub mod histogram;
pub mod metrics;
pub mod phase;
pub mod qlog;
pub mod totals;
