//! HTTP/3 to upstreams: exchanges share connections of QUIC, each of which a task drives.

mod connection;
mod fields;
mod inbox;
mod session;
mod shared_session;
mod stream;
mod upload;

pub(in crate::proxy) use connection::Http3Connection;
