//! HTTP/2 to upstreams: exchanges share connections, each of which a task drives.

mod connection;
mod slot;
mod stream;
mod tunnel;

pub(super) use connection::{Http2Connection, Http2Limits};
