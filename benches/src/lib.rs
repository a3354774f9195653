//! Whole connections in virtual time, and the scenarios that are run with them.

pub mod collapse;
pub mod endpoint_net;
pub mod matrix;
pub mod virtual_net;
