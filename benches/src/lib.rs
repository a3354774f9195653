//! Whole connections in virtual time, the scenarios that are run with them, and an emulated link for real traffic.

pub mod agree;
pub mod collapse;
mod conventions;
mod counted;
pub mod counts;
pub mod jobs;
pub mod linkem;
pub mod matrix;
pub mod real_net;
pub mod unfixed_cubic;
pub mod virtual_net;
