//! What operators can see of the server.

pub mod qlog;
pub mod totals;
