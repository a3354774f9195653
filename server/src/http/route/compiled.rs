//! Compiles a route of the configuration.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use sluicegate_config::{Handler, Limits};

use super::edits::Edits;
use super::local::{LocalHandler, Location, fixed};
use crate::http::exchange::{Fields, ReplyFields};
use crate::http::files::{Folder, FolderCompiler};
use crate::http::path::CanonicalPath;
use crate::http::proxy::{PoolCompiler, RequestRules, RouteProxy};

/// Reason for which routes cannot be served: one line with the cause and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The file of a fixed reply cannot be read.
    #[error(
        "route {route}: cannot read body_file {}: {cause}; correct the path in [route.fixed], or make the file readable \
         for the server's user",
        file.display()
    )]
    BodyFile {
        /// The route's path.
        route: String,
        /// File that was to be read.
        file: PathBuf,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// The folder of a file handler cannot be read.
    #[error(
        "route {route}: cannot read the folder {}: {cause}; correct `root` in [route.files], or let the server's \
         user read it",
        root.display()
    )]
    Root {
        /// The route's path.
        route: String,
        /// Folder that was to be opened.
        root: PathBuf,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// The route's path is not in its canonical spelling, so no request would match it.
    #[error("route {route}: no request matches this path; {advice}")]
    Path {
        /// The path as configured.
        route: String,
        /// The path to write instead, or the fault of this one.
        advice: String,
    },
    /// A header field cannot be sent.
    #[error("route {route}: `{field}` cannot stand in a header; use visible ASCII characters")]
    Field {
        /// The route's path.
        route: String,
        /// Name or value of the field, as configured.
        field: String,
    },
}

/// Compiled route.
#[derive(Debug)]
pub struct Route {
    /// Prefix of the canonical paths that the route matches.
    pub path: String,
    /// Methods that the route matches; empty for any.
    pub(super) methods: Vec<String>,
    /// Handler of the requests.
    pub action: Action,
    request_headers: Edits,
    response_headers: Edits,
    /// Largest request body, bytes.
    pub max_request_body: u64,
    /// Time limit of an exchange.
    pub timeout: Option<Duration>,
}

/// A handler by the thread that runs it.
#[derive(Debug)]
pub enum Action {
    /// The front's thread builds the response.
    Local(LocalHandler),
    /// The origin thread runs the handler.
    Origin(OriginHandler),
}

/// The kinds of handler that may wait, with their settings.
#[derive(Debug)]
pub enum OriginHandler {
    /// Serves the files of a folder.
    Files(Folder),
    /// Forwards requests to upstreams.
    Proxy(Box<RouteProxy>),
}

impl Route {
    /// Compiles a route: reads the file of a fixed reply, and resolves the pool of a proxy and the folder of files.
    ///
    /// # Errors
    /// A `body_file` or a `root` cannot be read, or a path or field cannot be used.
    pub(super) fn compile(
        route: &sluicegate_config::Route,
        limits: &Limits,
        pools: &mut PoolCompiler<'_>,
        folders: &mut FolderCompiler<'_>,
    ) -> Result<Route, SiteError> {
        let refuse = |field: String| SiteError::Field {
            route: route.path.clone(),
            field: field.escape_debug().to_string(),
        };
        let action = match &route.handler {
            Handler::Generate(generate) => Action::Local(LocalHandler::Generate {
                max_size: generate.max_size,
            }),
            Handler::Redirect(redirect) => {
                Action::Local(LocalHandler::Redirect(Location::new(redirect)))
            }
            Handler::Proxy(proxy) => {
                Action::Origin(OriginHandler::Proxy(Box::new(pools.compile(proxy))))
            }
            Handler::Files(files) => {
                fs::read_dir(&files.root).map_err(|cause| SiteError::Root {
                    route: route.path.clone(),
                    root: files.root.clone(),
                    cause,
                })?;
                Action::Origin(OriginHandler::Files(folders.compile(files)))
            }
            Handler::Fixed(reply) => {
                let bytes = match &reply.body_file {
                    None => Bytes::from(reply.body.clone().unwrap_or_default()),
                    Some(file) => {
                        Bytes::from(fs::read(file).map_err(|cause| SiteError::BodyFile {
                            route: route.path.clone(),
                            file: file.clone(),
                            cause,
                        })?)
                    }
                };
                let value = HeaderValue::from_str(&reply.content_type);
                let content_type = value.map_err(|_| refuse(reply.content_type.clone()))?;
                Action::Local(LocalHandler::Fixed(fixed(
                    reply.status,
                    content_type,
                    bytes,
                )))
            }
        };
        check_prefix(&route.path)?;
        Ok(Route {
            path: route.path.clone(),
            methods: route.methods.clone(),
            action,
            request_headers: Edits::new(&route.request_headers).map_err(refuse)?,
            response_headers: Edits::new(&route.response_headers).map_err(refuse)?,
            max_request_body: route.max_request_body.unwrap_or(limits.max_request_body),
            timeout: route.timeout,
        })
    }

    /// Returns what follows the route's prefix in a path that it was found for.
    pub fn rest<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(&self.path).unwrap_or(path)
    }

    /// Returns what [`Route::rest`] returns, in the spelling for upstreams ([`CanonicalPath::forward`]).
    pub fn forward_rest<'a>(&self, path: &'a CanonicalPath) -> &'a str {
        let prefix = path.len() - self.rest(path).len();
        path.forward(prefix)
    }

    /// Returns whether the route's prefix ends within a segment of a path that it was found for, as `/app` does in `/apples`.
    pub(super) fn ends_within_segment(&self, path: &str) -> bool {
        let rest = self.rest(path);
        !(self.path.ends_with('/') || rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns what [`Route::rest`] returns, without a slash in front.
    pub fn below<'a>(&self, path: &'a str) -> &'a str {
        let rest = self.rest(path);
        let slash = !self.path.ends_with('/');
        rest.strip_prefix('/').filter(|_| slash).unwrap_or(rest)
    }

    /// Changes a request's fields as configured.
    pub fn edit_request(&self, fields: &mut Fields) {
        self.request_headers.apply(fields);
    }

    /// Changes a final response's fields as configured.
    pub fn edit_response(&self, fields: &mut Fields) {
        self.response_headers.apply(fields);
    }

    /// Changes a reply's fields as configured. Without changes, shared fields stay shared.
    pub fn edit_reply(&self, fields: &mut ReplyFields) {
        if !self.response_headers.is_empty() {
            self.response_headers.apply(fields.edit());
        }
    }
}

impl RequestRules for Route {
    fn rest<'a>(&self, path: &'a CanonicalPath) -> &'a str {
        self.forward_rest(path)
    }

    fn sets(&self, name: &HeaderName) -> bool {
        self.request_headers.sets(name)
    }

    fn removes(&self, name: &HeaderName) -> bool {
        self.request_headers.removes(name)
    }
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
