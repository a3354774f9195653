//! Which handler answers a request, and what the server answers by itself.
//!
//! A [`Site`] is compiled once from the configuration and shared by all workers; asking it reads no file and waits for
//! nothing. What takes a file or another server it names a route for, and the worker's origin thread answers.

mod edits;
mod local;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
mod table;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use sluicegate_config::{Files, Handler, Limits, Proxy};

use crate::http::exchange::{Fields, Reply, RequestHead};
use crate::http::path::CanonicalPath;

use self::edits::Edits;
use self::local::{Location, allowing, fixed, generate, not_found};
use self::table::{Found, Table};

/// Why routes cannot be served: one line, with the cause and what to do.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The file of a fixed reply.
    #[error(
        "route {route}: cannot read body_file {}: {cause}; correct the path in [route.fixed], or make the file readable \
         for the server's user",
        file.display()
    )]
    BodyFile {
        /// The route's path.
        route: String,
        /// What was to be read.
        file: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A folder of files.
    #[error(
        "route {route}: {} is no folder that can be read: {cause}; correct `root` in [route.files], or let the server's \
         user read it",
        root.display()
    )]
    Root {
        /// The route's path.
        route: String,
        /// What was to be opened.
        root: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The route's path is not in its canonical spelling, so no request would match it.
    #[error("route {route}: no request matches this path; {advice}")]
    Path {
        /// The path as configured.
        route: String,
        /// What to write instead, or what is wrong with the path.
        advice: String,
    },
    /// A field that cannot be sent.
    #[error("route {route}: `{field}` cannot stand in a header; use visible ASCII characters")]
    Field {
        /// The route's path.
        route: String,
        /// As configured.
        field: String,
    },
}

static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// Every route with its handler, and the limits for requests; immutable.
#[derive(Debug)]
pub struct Site {
    table: Table,
    limits: Limits,
    /// Some route needs an origin thread.
    needs_origin: bool,
}

/// A route, ready to answer.
#[derive(Debug)]
pub struct Route {
    /// No other route of the process has it, be it one of an earlier configuration.
    pub id: u64,
    /// Prefix of the canonical paths that the route is for.
    pub path: String,
    /// Empty: any.
    methods: Vec<String>,
    /// Who answers.
    pub action: Action,
    request_headers: Edits,
    response_headers: Edits,
    /// Largest request body, bytes.
    pub max_request_body: u64,
    /// How long an exchange may take.
    pub timeout: Option<Duration>,
}

/// Who answers.
#[derive(Debug)]
pub enum Action {
    /// The same reply each time.
    Fixed(Reply),
    /// As many bytes as the path asks for.
    Generate {
        /// Largest size answered.
        max_size: u64,
    },
    /// Another place.
    Redirect(Location),
    /// Files of a folder, by the origin thread.
    Files(Arc<Files>),
    /// Other servers, by the origin thread.
    Proxy(Proxy),
}

/// What a site says to a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// This, at once.
    Reply(Reply),
    /// What the route's handler on the origin thread says.
    Origin(Arc<Route>),
}

impl Site {
    /// Prepares the routes for answering: files of fixed replies are read now and kept.
    ///
    /// # Errors
    /// Where a `body_file` or a `root` cannot be read.
    pub fn compile(
        routes: &[sluicegate_config::Route],
        limits: &Limits,
    ) -> Result<Site, SiteError> {
        let mut table = Table::default();
        let mut needs_origin = false;
        for route in routes {
            let compiled = compile(route, limits)?;
            needs_origin |= matches!(compiled.action, Action::Files(_) | Action::Proxy(_));
            table.add(&route.hosts, &Arc::new(compiled));
        }
        table.sort();
        Ok(Site {
            table,
            limits: limits.clone(),
            needs_origin,
        })
    }

    /// What clients may send and hold.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Every route's proxy.
    pub fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.table.routes().filter_map(|route| match &route.action {
            Action::Proxy(proxy) => Some(proxy),
            _ => None,
        })
    }

    /// Whether some route is answered by an origin thread.
    pub fn needs_origin(&self) -> bool {
        self.needs_origin
    }

    /// Some route, for tests that need one and do not care.
    #[cfg(test)]
    pub(crate) fn any_route(&self) -> Option<&Arc<Route>> {
        self.table.routes().next()
    }

    /// Answers a request, or says which route's handler does: the host decides first, then the longest prefix of the
    /// path, then the method. 404 where there is none, 405 where only the method does not fit.
    pub fn answer(&self, head: &RequestHead) -> Answer {
        match head.method.as_str() {
            "CONNECT" => {
                return Answer::Reply(Reply::plain(501, "501 this server opens no tunnels\n"));
            }
            "OPTIONS" if head.path.as_str() == "*" => {
                return Answer::Reply(allowing(204, "GET, HEAD", ""));
            }
            _ => {}
        }
        let route = match self
            .table
            .find(host(&head.authority), &head.path, &head.method)
        {
            Found::Route(route) => route,
            Found::OtherMethods(methods) => {
                return Answer::Reply(allowing(
                    405,
                    &methods.join(", "),
                    "405 method not allowed\n",
                ));
            }
            Found::Nothing => return Answer::Reply(not_found()),
        };
        let mut reply = match &route.action {
            Action::Files(_) | Action::Proxy(_) => return Answer::Origin(Arc::clone(route)),
            Action::Redirect(location) => location.reply(head, route.forward_rest(&head.path)),
            _ if !matches!(head.method.as_str(), "GET" | "HEAD") => {
                allowing(405, "GET, HEAD", "405 only GET and HEAD\n")
            }
            Action::Fixed(reply) => reply.clone(),
            Action::Generate { max_size } => generate(route.below(&head.path), *max_size),
        };
        route.edit_response(&mut reply.headers);
        Answer::Reply(reply)
    }
}

impl Route {
    /// What follows the route's prefix in a path that it was found for.
    pub fn rest<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(&self.path).unwrap_or(path)
    }

    /// Returns the same in the spelling for other servers ([`CanonicalPath::forward`]).
    pub fn forward_rest<'a>(&self, path: &'a CanonicalPath) -> &'a str {
        let prefix = path.len() - self.rest(path).len();
        path.forward(prefix)
    }

    /// The same, without a slash in front.
    pub fn below<'a>(&self, path: &'a str) -> &'a str {
        let rest = self.rest(path);
        let slash = !self.path.ends_with('/');
        rest.strip_prefix('/').filter(|_| slash).unwrap_or(rest)
    }

    /// Changes a request's fields as configured.
    pub fn edit_request(&self, fields: &mut Fields) {
        self.request_headers.apply(fields);
    }

    /// Whether a field of an edited request comes from the configuration, not from the client.
    pub fn sets_in_request(&self, name: &HeaderName) -> bool {
        self.request_headers.sets(name)
    }

    /// Changes a final response's fields as configured.
    pub fn edit_response(&self, fields: &mut Fields) {
        self.response_headers.apply(fields);
    }
}

/// The host of an authority, without its port; with brackets where it is an IPv6 address.
fn host(authority: &str) -> &str {
    let end = match authority.rfind(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    &authority[..end]
}

/// Checks that canonical paths can begin with `prefix`, which may end within a segment.
fn check_prefix(prefix: &str) -> Result<(), SiteError> {
    let longer = format!("{prefix}x");
    let advice = match CanonicalPath::parse(&longer) {
        Ok(path) if path.as_str() == longer => return Ok(()),
        Ok(path) => format!(
            "write `path = \"{}\"`, the canonical spelling",
            path.strip_suffix('x').unwrap_or(&path)
        ),
        Err(error) => format!("correct `path` in [[route]]: {error}"),
    };
    Err(SiteError::Path {
        route: prefix.to_owned(),
        advice,
    })
}

fn compile(route: &sluicegate_config::Route, limits: &Limits) -> Result<Route, SiteError> {
    let refuse = |field: String| SiteError::Field {
        route: route.path.clone(),
        field: field.escape_debug().to_string(),
    };
    let action = match &route.handler {
        Handler::Generate(generate) => Action::Generate {
            max_size: generate.max_size,
        },
        Handler::Redirect(redirect) => Action::Redirect(Location::new(redirect)),
        Handler::Proxy(proxy) => Action::Proxy(proxy.clone()),
        Handler::Files(files) => {
            fs::read_dir(&files.root).map_err(|cause| SiteError::Root {
                route: route.path.clone(),
                root: files.root.clone(),
                cause,
            })?;
            Action::Files(Arc::new(files.clone()))
        }
        Handler::Fixed(reply) => {
            let bytes = match &reply.body_file {
                None => Bytes::from(reply.body.clone().unwrap_or_default()),
                Some(file) => Bytes::from(fs::read(file).map_err(|cause| SiteError::BodyFile {
                    route: route.path.clone(),
                    file: file.clone(),
                    cause,
                })?),
            };
            let value = HeaderValue::from_str(&reply.content_type);
            let content_type = value.map_err(|_| refuse(reply.content_type.clone()))?;
            Action::Fixed(fixed(reply.status, content_type, bytes))
        }
    };
    check_prefix(&route.path)?;
    Ok(Route {
        id: LAST_ID.fetch_add(1, Ordering::Relaxed),
        path: route.path.clone(),
        methods: route.methods.clone(),
        action,
        request_headers: Edits::new(&route.request_headers).map_err(refuse)?,
        response_headers: Edits::new(&route.response_headers).map_err(refuse)?,
        max_request_body: route.max_request_body.unwrap_or(limits.max_request_body),
        timeout: route.timeout,
    })
}

#[cfg(test)]
mod tests;
