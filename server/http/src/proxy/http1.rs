//! HTTP/1.1 to upstreams: one exchange at a time on a connection, which the exchange itself drives.

mod connection;
mod idle;
mod stream;

pub(super) use connection::Http1Connection;
pub(super) use idle::IdleConnections;
#[cfg(test)]
pub(super) use idle::{PAUSE, SURPLUS};
pub(super) use stream::Http1Stream;
