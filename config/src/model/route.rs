//! What is answered: to which requests, by whom, with which changes.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What is answered to some requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The hosts it is for; empty: any.
    pub hosts: Vec<HostPattern>,
    /// Prefix of the request path; starts with `/`.
    pub path: String,
    /// The methods it is for, in upper case; empty: any.
    pub methods: Vec<String>,
    /// Who answers.
    pub handler: Handler,
    /// Changes to a request's header before the handler sees it.
    pub request_headers: HeaderEdits,
    /// Changes to the header of what the handler answers.
    pub response_headers: HeaderEdits,
    /// Largest request body, bytes; `None`: [`Limits::request_body`](crate::Limits::request_body).
    pub request_body: Option<u64>,
    /// How long the whole exchange may take; `None`: any time.
    pub timeout: Option<Duration>,
}

impl Route {
    /// A route for any host and method that changes no header and has no limits of its own.
    pub fn new(path: impl Into<String>, handler: Handler) -> Self {
        Self {
            hosts: Vec::new(),
            path: path.into(),
            methods: Vec::new(),
            handler,
            request_headers: HeaderEdits::default(),
            response_headers: HeaderEdits::default(),
            request_body: None,
            timeout: None,
        }
    }
}

/// Hosts that a route is for, in lower case, without a port; an IPv6 address stands in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostPattern {
    /// This one.
    Exact(String),
    /// Every name that ends so and is longer; starts with a dot.
    Suffix(String),
}

impl fmt::Display for HostPattern {
    /// As in a file: `example.com`, `*.example.com`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => f.write_str(host),
            Self::Suffix(suffix) => write!(f, "*{suffix}"),
        }
    }
}

/// Changes to a header, made in the order of the fields below. Names are lower-case tokens, none of them about the
/// connection or the framing; values are valid field values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderEdits {
    /// Fields that are taken out.
    pub remove: Vec<String>,
    /// Fields that take the place of those with the same name; each name once.
    pub set: Vec<(String, String)>,
    /// Fields that come on top.
    pub add: Vec<(String, String)>,
}

/// Who answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handler {
    /// The same reply each time.
    Fixed {
        /// 200 to 599.
        status: u16,
        /// A valid field value.
        content_type: String,
        /// Empty where the status forbids one.
        body: Body,
    },
    /// As many bytes as the rest of the path asks for; [`parse_size`](crate::parse_size) reads it.
    Generate {
        /// Largest size answered, bytes.
        max_size: u64,
    },
    /// Files of a folder.
    Files(Files),
    /// What other servers answer.
    Proxy(Proxy),
    /// Another place.
    Redirect(Redirect),
}

/// The body of a fixed reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Given in the configuration; may be empty.
    Text(String),
    /// In a file, for the server to read.
    File(PathBuf),
}

/// Files of a folder: the path behind the route's prefix is looked up in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The folder.
    pub root: PathBuf,
    /// What answers for a folder: the first of these names that is in it.
    pub index: Vec<String>,
    /// Whether `name.br`, `name.zst` and `name.gz` answer for `name`.
    pub precompressed: bool,
    /// Which symbolic links are followed.
    pub symlinks: Symlinks,
}

/// Which symbolic links below [`Files::root`] are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    /// None.
    Never,
    /// Those that lead to a place below the root.
    Inside,
    /// All.
    Follow,
}

/// Servers that answer in this one's place, over HTTP/1.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// 1 to 64 of `host:port`, in lower case, each once; an IPv6 address stands in brackets.
    pub upstreams: Vec<String>,
    /// What the upstream gets as `Host`.
    pub host: HostHeader,
    /// Whether the route's prefix is taken off the path.
    pub strip_prefix: bool,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// How long the head of the response may take once the request is sent.
    pub head_timeout: Duration,
    /// How long nothing may move, between two reads or two writes.
    pub idle_timeout: Duration,
    /// Idle connections kept for each upstream and worker; 0: none.
    pub keepalive: u64,
    /// How long an idle connection is kept.
    pub keepalive_timeout: Duration,
    /// Further connections or upstreams that are tried where it is safe.
    pub retries: u64,
    /// Failures in a row after which an upstream is out of rotation; 0: it never is.
    pub max_fails: u64,
    /// How long it is out of rotation.
    pub fail_timeout: Duration,
    /// Whether `Forwarded` and `X-Forwarded-*` are set.
    pub forwarded: bool,
    /// Largest head of a response, bytes.
    pub header_bytes: u64,
}

/// What an upstream gets as `Host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostHeader {
    /// The host that the client asked for.
    Client,
    /// The upstream's own address.
    Upstream,
    /// This one: a host, with a port or without.
    Name(String),
}

/// An answer that names another place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// The other place; `{host}`, `{path}`, `{query}` (with its `?`) and `{rest}` (the path behind the route's prefix)
    /// stand for the request's own.
    pub location: String,
}
