//! Handlers that need neither a file nor another server, and the responses of the router itself.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{ALLOW, CONTENT_TYPE, LOCATION};
use sluicegate_config::Redirect;

use crate::http::authority::host;
use crate::http::exchange::{Body, Generator, Reply, ReplyFields, RequestHead};

/// The kinds of handler that need the request's head alone, with their settings.
#[derive(Clone, Debug)]
pub enum LocalHandler {
    /// Returns the same response to every request, whatever its method.
    Fixed(Reply),
    /// Returns as many bytes as the path asks for.
    Generate {
        /// Largest size that is returned, bytes.
        max_size: u64,
    },
    /// Redirects to another URL.
    Redirect(Location),
}

impl LocalHandler {
    /// Returns the response. `below` is the path behind the route's prefix, without a slash in front; `rest` is the same in
    /// the spelling for other servers, with it.
    pub(super) fn respond(&self, head: &RequestHead, below: &str, rest: &str) -> Reply {
        match self {
            LocalHandler::Redirect(location) => location.reply(head, rest),
            LocalHandler::Fixed(reply) => reply.clone(),
            LocalHandler::Generate { .. } if !matches!(head.method.as_str(), "GET" | "HEAD") => {
                allowing(405, "GET, HEAD", "405 only GET and HEAD\n")
            }
            LocalHandler::Generate { max_size } => generate(below, *max_size),
        }
    }
}

/// Location of a redirect, with placeholders that each request fills.
#[derive(Clone, Debug)]
pub struct Location {
    status: u16,
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Host,
    Path,
    Query,
    Rest,
}

impl Location {
    pub(super) fn new(redirect: &Redirect) -> Location {
        let mut parts = Vec::new();
        let mut text = redirect.location.as_str();
        const NAMES: [(&str, Part); 4] = [
            ("{host}", Part::Host),
            ("{path}", Part::Path),
            ("{query}", Part::Query),
            ("{rest}", Part::Rest),
        ];
        while !text.is_empty() {
            let next = text.find('{').unwrap_or(text.len());
            if next > 0 {
                parts.push(Part::Text(text[..next].to_owned()));
                text = &text[next..];
                continue;
            }
            let found = NAMES.iter().find(|(name, _)| text.starts_with(name));
            let (len, part) = match found {
                Some((name, part)) => (name.len(), part.clone()),
                None => (1, Part::Text("{".to_owned())),
            };
            parts.push(part);
            text = &text[len..];
        }
        Location {
            status: redirect.status,
            parts,
        }
    }

    fn reply(&self, head: &RequestHead, rest: &str) -> Reply {
        let mut location = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => location.push_str(text),
                Part::Host => location.push_str(host(&head.authority)),
                Part::Path => location.push_str(head.path.forward(0)),
                Part::Rest => {
                    // Behind a host the rest must not become a part of the name.
                    if ends_in_host(&location) && !rest.starts_with('/') {
                        location.push('/');
                    }
                    location.push_str(rest);
                }
                Part::Query => {
                    if let Some(query) = &head.query {
                        location.push('?');
                        location.push_str(query);
                    }
                }
            }
        }
        // A client's path at the beginning must not become another host. Browsers read a backslash as a slash.
        let here = match self.parts.first() {
            Some(Part::Text(text)) => text.starts_with('/') && !text.starts_with("//"),
            Some(Part::Path | Part::Rest) => true,
            Some(Part::Host | Part::Query) | None => false,
        };
        if here {
            let path = location.trim_start_matches(['/', '\\']);
            location = format!("/{path}");
        }
        match HeaderValue::try_from(location) {
            Ok(location) => Reply {
                status: self.status,
                headers: vec![(LOCATION, location)].into(),
                body: Body::Empty,
            },
            Err(_) => not_found(),
        }
    }
}

/// Returns whether further text would become a part of a host's name.
fn ends_in_host(location: &str) -> bool {
    let host = location.split_once("//").map(|(_, host)| host);
    host.is_some_and(|host| !host.contains('/'))
}

pub(super) fn fixed(status: u16, content_type: HeaderValue, bytes: Bytes) -> Reply {
    let described = !matches!(status, 204 | 205 | 304);
    Reply {
        status,
        headers: ReplyFields::Shared(Arc::new(if described {
            vec![(CONTENT_TYPE, content_type)]
        } else {
            Vec::new()
        })),
        body: if bytes.is_empty() {
            Body::Empty
        } else {
            Body::Bytes(bytes)
        },
    }
}

pub(super) fn not_found() -> Reply {
    Reply::plain(404, "404 not found\n")
}

/// Returns a response that lists the methods to use instead, in Allow.
pub(super) fn allowing(status: u16, methods: &str, text: &'static str) -> Reply {
    let allow = HeaderValue::try_from(methods);
    Reply {
        status,
        headers: ReplyFields::Own(allow.map(|allow| (ALLOW, allow)).into_iter().collect()),
        body: match text {
            "" => Body::Empty,
            _ => Body::Bytes(Bytes::from_static(text.as_bytes())),
        },
    }
}

fn generate(size: &str, max_size: u64) -> Reply {
    match sluicegate_config::parse_size(size) {
        Some(size) if size <= max_size => Reply {
            status: 200,
            headers: ReplyFields::Own(vec![(
                CONTENT_TYPE,
                HeaderValue::from_static("application/octet-stream"),
            )]),
            body: Body::Generated(Generator::new(size)),
        },
        _ => not_found(),
    }
}
