//! HTTP/2 to upstreams: exchanges share connections, each of which a task drives.

mod connection;
mod slot;
mod stream;
mod tunnel;

pub(in crate::proxy) use connection::Http2Connection;
