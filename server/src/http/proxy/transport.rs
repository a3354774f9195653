//! Transports of upstream connections.

mod host_name;
mod tcp;

pub(super) use host_name::HostName;
pub(super) use tcp::connect;
