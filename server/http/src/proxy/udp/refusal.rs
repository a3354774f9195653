//! Requests for tunnels for UDP that get none.

use http::header::ALLOW;
use http::{HeaderName, HeaderValue};
use sluicegate_base::observe::metrics::labels;

use crate::exchange::Reply;

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

labels! {
    /// Reason for which a request gets no tunnel.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum TunnelRefusal {
        /// The request does not ask for a tunnel for UDP.
        Method = "method",
        /// The path names no target.
        Malformed = "malformed",
        /// The route does not allow the target, or an address that its name has.
        Denied = "denied",
        /// The target's name has no address.
        Resolve = "resolve",
        /// The worker has as many tunnels as the route allows.
        Full = "full",
        /// The system gave no socket, or knows no way to the target.
        System = "system",
    }
}

impl TunnelRefusal {
    /// Returns the cause for the access log, if the server itself responds with a 5xx status.
    pub(super) fn cause(self) -> Option<&'static str> {
        match self {
            TunnelRefusal::Resolve => Some("resolve"),
            TunnelRefusal::Full => Some("no_room"),
            TunnelRefusal::System => Some("unreachable"),
            TunnelRefusal::Method | TunnelRefusal::Malformed | TunnelRefusal::Denied => None,
        }
    }

    /// Returns the response.
    pub(super) fn reply(self) -> Reply {
        let (mut reply, field) = match self {
            TunnelRefusal::Method => {
                (Reply::plain(405, "405 this path is for CONNECT-UDP\n"), Some((ALLOW, "CONNECT")))
            }
            TunnelRefusal::Malformed => (Reply::plain(400, "400 no target in the path\n"), None),
            TunnelRefusal::Denied => (
                Reply::plain(403, "403 target not allowed\n"),
                Some((PROXY_STATUS, "sluicegate; error=destination_ip_prohibited")),
            ),
            TunnelRefusal::Resolve => (
                Reply::plain(502, "502 the target's name has no address\n"),
                Some((PROXY_STATUS, "sluicegate; error=dns_error")),
            ),
            TunnelRefusal::Full => (Reply::plain(503, "503 too many tunnels at once\n"), None),
            TunnelRefusal::System => (
                Reply::plain(502, "502 the target cannot be reached\n"),
                Some((PROXY_STATUS, "sluicegate; error=destination_unavailable")),
            ),
        };
        if let Some((name, value)) = field {
            let line = (name, HeaderValue::from_static(value));
            reply.headers.edit().push(line);
        }
        reply
    }
}
