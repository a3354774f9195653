//! Requests, and what every front makes of them.

/// A request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    /// A body of so many bytes without a `content-length`.
    Sent(usize),
    /// A `content-length`, and nothing sent yet.
    Announced(u64),
    /// A `content-length` with `expect: 100-continue`, and nothing sent yet.
    Expecting(u64),
}

/// A request and its outcome: a status, or `None` if a handler gets it.
pub(crate) struct Case {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) body: Body,
    pub(crate) early_data: bool,
    /// Exchanges of the connection that are running already.
    pub(crate) running: usize,
    /// Another client has all memory for exchanges.
    pub(crate) no_memory: bool,
    pub(crate) outcome: Option<u16>,
}

impl Case {
    /// Returns the `content-length` of the request.
    pub(crate) fn announced(&self) -> Option<u64> {
        match self.body {
            Body::Announced(length) | Body::Expecting(length) => Some(length),
            Body::None | Body::Sent(_) => None,
        }
    }

    /// Returns whether the request ends with its head. A client that asks for a tunnel waits for a response and ends nothing.
    pub(crate) fn ends_with_head(&self) -> bool {
        self.body == Body::None && self.method != "CONNECT"
    }

    /// Returns the protocol of an extended CONNECT, which has a path.
    pub(crate) fn protocol(&self) -> Option<&'static str> {
        (self.method == "CONNECT" && !self.path.is_empty()).then_some("websocket")
    }
}

const GET: Case = Case {
    method: "GET",
    path: "/page",
    body: Body::None,
    early_data: false,
    running: 0,
    no_memory: false,
    outcome: Some(200),
};

fn get(path: &'static str, outcome: Option<u16>) -> Case {
    Case { path, outcome, ..GET }
}

fn ask(method: &'static str, path: &'static str, body: Body, outcome: Option<u16>) -> Case {
    Case { method, body, ..get(path, outcome) }
}

fn early(method: &'static str, path: &'static str, outcome: Option<u16>) -> Case {
    Case { early_data: true, ..ask(method, path, Body::None, outcome) }
}

/// Returns the policy. Of the site, `/page` and `/bytes/` need no handler and take bodies of 1000 bytes, and `/app/` has a handler and
/// takes 60,000; four exchanges may run at once.
pub(crate) fn cases() -> Vec<Case> {
    vec![
        get("/page", Some(200)),
        get("/nothing", Some(404)),
        get("/app/x", None),
        ask("POST", "/page", Body::None, Some(200)),
        ask("POST", "/bytes/1", Body::None, Some(405)),
        ask("OPTIONS", "*", Body::None, Some(204)),
        // Tunnels.
        ask("CONNECT", "", Body::None, Some(501)),
        ask("CONNECT", "/app/x", Body::None, None),
        ask("CONNECT", "/app%2fx", Body::None, Some(400)),
        // A response of 2xx would open the tunnel.
        ask("CONNECT", "/page", Body::None, Some(501)),
        ask("CONNECT", "/nothing", Body::None, Some(404)),
        early("CONNECT", "", Some(425)),
        early("CONNECT", "/app/x", Some(425)),
        // Every spelling of a path meets the same route.
        get("//page", Some(200)),
        get("/%70age", Some(200)),
        get("/app/../page", Some(200)),
        get("/x/%2e%2e//app/y", None),
        get("/app%2fx", Some(400)),
        get("/app/%00", Some(400)),
        get("/app/%zz", Some(400)),
        get("/app/..;/page", Some(400)),
        // Bodies.
        ask("GET", "/page", Body::Sent(1000), Some(200)),
        ask("GET", "/page", Body::Sent(1001), Some(413)),
        ask("GET", "/page", Body::Announced(1001), Some(413)),
        ask("GET", "/page", Body::Expecting(1000), Some(200)),
        ask("GET", "/page", Body::Expecting(1001), Some(413)),
        ask("GET", "/app%2fx", Body::Sent(1001), Some(413)),
        ask("POST", "/app/x", Body::Sent(1001), None),
        ask("POST", "/app/x", Body::Announced(60_000), None),
        ask("POST", "/app/x", Body::Announced(60_001), Some(413)),
        ask("POST", "/app/x", Body::Expecting(60_001), Some(413)),
        // Early data (RFC 8470).
        early("GET", "/page", Some(200)),
        early("HEAD", "/app/x", None),
        early("POST", "/app/x", Some(425)),
        early("DELETE", "/page", Some(425)),
        early("TRACE", "/app/x", Some(425)),
        early("OPTIONS", "/app/x", None),
        early("POST", "/app%2fx", Some(425)),
        // Limits.
        Case { running: 3, ..get("/app/x", None) },
        Case { running: 4, ..get("/app/x", Some(503)) },
        Case { running: 4, ..get("/page", Some(200)) },
        Case { no_memory: true, ..get("/app/x", Some(503)) },
        Case { no_memory: true, ..get("/page", Some(200)) },
    ]
}
