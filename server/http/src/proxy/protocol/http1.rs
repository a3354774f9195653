//! HTTP/1.1 to upstreams: one exchange at a time on a connection, which the exchange itself drives.
//!
//! A request is written out of its fields into one buffer, with a small body behind them, and a response is parsed in the buffer that
//! it was read into: heads by httparse, bodies as slices. A connection has no task of its own and no queues. It holds the
//! bytes of a read and of one block of a request's body, and next to nothing at rest.

mod body;
mod connection;
mod head;
mod idle;
mod outgoing;
mod read_size;
mod stream;

pub(in crate::proxy) use connection::Http1Connection;
pub(in crate::proxy) use idle::IdleConnections;
#[cfg(test)]
pub(in crate::proxy) use idle::{PAUSE, SURPLUS};
pub(in crate::proxy) use stream::Http1Stream;
