//! Responses of the gate itself, the same by every front.

use std::time::Duration;

use http::header::{CONNECTION, RETRY_AFTER, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderValue, Version};

use crate::exchange::Reply;

/// Returns 403: the client may not use the route.
pub fn forbidden() -> Reply {
    Reply::plain(403, "403 forbidden\n")
}

/// Returns 400: the head of the request is malformed.
pub fn malformed() -> Reply {
    Reply::plain(400, "400 malformed request\n")
}

/// Returns 400: the client speaks HTTP without TLS to a port for HTTPS.
pub fn lacks_tls() -> Reply {
    Reply::plain(400, "400 this port speaks HTTPS only: use https://\n")
}

/// Returns 400: methods are case-sensitive, and all that are registered are in upper case (RFC 9110 §9.1, §16.1).
pub fn lower_case_method() -> Reply {
    Reply::plain(400, "400 method not in upper case\n")
}

/// Returns 408: the body did not arrive in time.
pub fn request_timeout() -> Reply {
    Reply::plain(408, "408 request body not sent in time\n")
}

/// Returns 413: the body is longer than the route or the server allows.
pub fn body_too_large() -> Reply {
    Reply::plain(413, "413 request body too large\n")
}

/// Returns 425: the request has effects and came in early data (RFC 8470).
pub fn too_early() -> Reply {
    Reply::plain(425, "425 not in early data\n")
}

/// Returns 429: the client may send its next request after `wait` (RFC 6585 §4).
pub fn too_often(wait: Duration) -> Reply {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let mut reply = Reply::plain(429, "429 too many requests\n");
    let line = (RETRY_AFTER, HeaderValue::from(seconds));
    reply.headers.edit().push(line);
    reply
}

/// Returns 426: the client speaks a version of WebSocket that the server does not (RFC 6455 §4.2.2, RFC 9110 §15.5.22). Only HTTP/1.1 has
/// an upgrade to name beside it (RFC 9113 §8.2.2, RFC 9114 §4.2).
pub fn other_websocket(http: Version) -> Reply {
    let mut reply = Reply::plain(426, "426 only version 13 of WebSocket is supported\n");
    let fields = reply.headers.edit();
    fields.push((SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")));
    if http < Version::HTTP_2 {
        fields.extend([
            (UPGRADE, HeaderValue::from_static("websocket")),
            (CONNECTION, HeaderValue::from_static("upgrade")),
        ]);
    }
    reply
}

/// Returns 431: the header section is larger than `limits.header_bytes`.
pub fn head_too_large() -> Reply {
    Reply::plain(431, "431 header section too large\n")
}

/// Returns 501: the request asks for a tunnel that its route does not open (RFC 9110 §9.3.6, RFC 9220 §3).
pub fn no_tunnels() -> Reply {
    Reply::plain(501, "501 no WebSocket or tunnel on this route\n")
}

/// Returns 503: the connection has as many running handlers as it may.
pub fn too_many_requests() -> Reply {
    later(Reply::plain(503, "503 too many requests at once\n"))
}

/// Returns 503: the process has used up its memory budget.
pub fn no_memory() -> Reply {
    later(Reply::plain(503, "503 no memory for further requests\n"))
}

/// Returns 503: queue or memory has no room for another exchange.
pub fn no_room() -> Reply {
    later(Reply::plain(503, "503 no room for further requests\n"))
}

/// Asks the client to wait before it sends the request again.
fn later(mut reply: Reply) -> Reply {
    let seconds = HeaderValue::from_static("1");
    reply.headers.edit().push((RETRY_AFTER, seconds));
    reply
}

/// Returns 504 or 502: the handler failed before its response began.
pub fn handler_failed(status: u16) -> Reply {
    if status == 504 {
        Reply::plain(504, "504 no response in time\n")
    } else {
        Reply::plain(502, "502 no valid response from the origin\n")
    }
}
