//! The parts of an access log line that are known when a connection or a request begins.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

/// Fields of a connection in the access log.
#[derive(Clone, Debug)]
pub struct ConnectionRecord {
    /// Name of the listener.
    pub listener: Arc<str>,
    /// Name of the congestion control algorithm.
    pub algorithm: &'static str,
    /// The client's first destination connection ID.
    pub connection: Box<[u8]>,
}

/// Fields of a request in the access log, kept until its end.
#[derive(Debug)]
pub(super) struct RequestRecord {
    pub(super) received: Duration,
    pub(super) client: SocketAddr,
    pub(super) method: String,
    pub(super) authority: String,
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) referer: Option<HeaderValue>,
    pub(super) user_agent: Option<HeaderValue>,
}
