//! HTTP/1.1 to upstreams: one exchange at a time on a connection, which the exchange itself drives.

mod connection;
mod idle;
mod stream;

pub(in crate::proxy) use connection::Http1Connection;
pub(in crate::proxy) use idle::IdleConnections;
#[cfg(test)]
pub(in crate::proxy) use idle::{PAUSE, SURPLUS};
pub(in crate::proxy) use stream::Http1Stream;
