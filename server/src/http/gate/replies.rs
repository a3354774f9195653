//! Replies of the gate itself, the same by every front.

use crate::http::exchange::Reply;

/// 400: servers read the path differently.
pub fn ambiguous_path() -> Reply {
    Reply::plain(400, "400 ambiguous path\n")
}

/// 413: the body is longer than the route or the server allows.
pub fn body_too_large() -> Reply {
    Reply::plain(413, "413 request body too large\n")
}

/// 425: the request has effects and came in early data (RFC 8470).
pub fn too_early() -> Reply {
    Reply::plain(425, "425 not in early data\n")
}

/// 431: the header section is larger than `limits.header_bytes`.
pub fn head_too_large() -> Reply {
    Reply::plain(431, "431 header section too large\n")
}

/// 501: the request asks for a tunnel, and no handler opens any (RFC 9110 §9.3.6, RFC 9220 §3).
pub fn no_tunnels() -> Reply {
    Reply::plain(501, "501 this server opens no tunnels\n")
}

/// 503: the connection has as many running handlers as it may.
pub fn too_many_requests() -> Reply {
    Reply::plain(503, "503 too many requests at once\n")
}

/// 503: neither queue nor memory has room for another exchange.
pub fn no_room() -> Reply {
    Reply::plain(503, "503 no room for further requests\n")
}

/// 504 or 502: the handler failed before it answered.
pub fn handler_failed(status: u16) -> Reply {
    if status == 504 {
        Reply::plain(504, "504 no answer in time\n")
    } else {
        Reply::plain(502, "502 no valid answer from the origin\n")
    }
}
