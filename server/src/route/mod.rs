//! Which handler answers a path, and what the server's own handlers answer.
//!
//! A [`Site`] is compiled once from the configuration and shared by all workers; answering reads no file and waits for
//! nothing.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{ALLOW, CONTENT_TYPE};
use sluicegate_config::{Handler, Limits};

use crate::exchange::{Body, Generator, Reply, RequestHead};

const ALLOWED: HeaderValue = HeaderValue::from_static("GET, HEAD");

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
    /// A field's value that cannot be sent.
    #[error(
        "route {route}: `{value}` cannot stand in a header field; use visible ASCII characters"
    )]
    FieldValue {
        /// The route's path.
        route: String,
        /// As configured.
        value: String,
    },
}

/// Every route with its handler, and the limits for requests; immutable.
#[derive(Debug)]
pub struct Site {
    /// Longest prefix first.
    routes: Vec<Arc<Route>>,
    limits: Limits,
}

/// A route, ready to answer.
#[derive(Debug)]
pub struct Route {
    prefix: String,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Fixed(Reply),
    Generate {
        max_size: u64,
    },
    /// No handler of that kind is built in.
    Missing,
}

impl Site {
    /// Prepares the routes for answering: files of fixed replies are read now and kept.
    ///
    /// # Errors
    /// Where a `body_file` cannot be read.
    pub fn compile(
        routes: &[sluicegate_config::Route],
        limits: &Limits,
    ) -> Result<Site, SiteError> {
        let compiled = routes.iter().map(|route| compile(route).map(Arc::new));
        let mut routes = compiled.collect::<Result<Vec<_>, _>>()?;
        routes.sort_by_key(|route| std::cmp::Reverse(route.prefix.len()));
        Ok(Site {
            routes,
            limits: limits.clone(),
        })
    }

    /// What clients may send and hold.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Some route, for tests that need one and do not care.
    #[cfg(test)]
    pub(crate) fn any_route(&self) -> Option<&Arc<Route>> {
        self.routes.first()
    }

    /// Answers a request whose body is of no interest: the longest prefix of its path decides, 404 where there is none.
    pub fn answer(&self, head: &RequestHead) -> Reply {
        match head.method.as_str() {
            "CONNECT" => return Reply::plain(501, "501 this server opens no tunnels\n"),
            "OPTIONS" if head.path == "*" => return allowing(204, Body::Empty),
            _ => {}
        }
        let route = self.routes.iter().find_map(|route| {
            let rest = head.path.strip_prefix(&route.prefix)?;
            Some((route, rest))
        });
        let Some((route, rest)) = route else {
            return not_found();
        };
        if !matches!(head.method.as_str(), "GET" | "HEAD") {
            let text = Bytes::from_static(b"405 only GET and HEAD\n");
            return allowing(405, Body::Bytes(text));
        }
        match &route.action {
            Action::Fixed(reply) => reply.clone(),
            Action::Generate { max_size } => {
                let slash = !route.prefix.ends_with('/');
                let size = rest.strip_prefix('/').filter(|_| slash).unwrap_or(rest);
                generate(size, *max_size)
            }
            Action::Missing => Reply::plain(501, "501 not implemented\n"),
        }
    }
}

fn compile(route: &sluicegate_config::Route) -> Result<Route, SiteError> {
    let action = match &route.handler {
        Handler::Generate { max_size } => Action::Generate {
            max_size: *max_size,
        },
        Handler::Files(_) | Handler::Proxy(_) | Handler::Redirect(_) => Action::Missing,
        Handler::Fixed {
            status,
            content_type,
            body,
        } => {
            let bytes = match body {
                sluicegate_config::Body::Text(text) => Bytes::from(text.clone()),
                sluicegate_config::Body::File(file) => {
                    Bytes::from(fs::read(file).map_err(|cause| SiteError::BodyFile {
                        route: route.path.clone(),
                        file: file.clone(),
                        cause,
                    })?)
                }
            };
            let content_type = field_value(route, content_type)?;
            Action::Fixed(fixed(*status, content_type, bytes))
        }
    };
    Ok(Route {
        prefix: route.path.clone(),
        action,
    })
}

/// The configuration has checked it by the same rules.
fn field_value(route: &sluicegate_config::Route, text: &str) -> Result<HeaderValue, SiteError> {
    HeaderValue::from_str(text).map_err(|_| SiteError::FieldValue {
        route: route.path.clone(),
        value: text.escape_debug().to_string(),
    })
}

fn fixed(status: u16, content_type: HeaderValue, bytes: Bytes) -> Reply {
    let described = !matches!(status, 204 | 205 | 304);
    Reply {
        status,
        headers: if described {
            vec![(CONTENT_TYPE, content_type)]
        } else {
            Vec::new()
        },
        body: if bytes.is_empty() {
            Body::Empty
        } else {
            Body::Bytes(bytes)
        },
    }
}

fn not_found() -> Reply {
    Reply::plain(404, "404 not found\n")
}

fn allowing(status: u16, body: Body) -> Reply {
    Reply {
        status,
        headers: vec![(ALLOW, ALLOWED)],
        body,
    }
}

fn generate(size: &str, max_size: u64) -> Reply {
    match sluicegate_config::parse_size(size) {
        Some(size) if size <= max_size => Reply {
            status: 200,
            headers: vec![(
                CONTENT_TYPE,
                HeaderValue::from_static("application/octet-stream"),
            )],
            body: Body::Generated(Generator::new(size)),
        },
        _ => not_found(),
    }
}

#[cfg(test)]
mod tests;
