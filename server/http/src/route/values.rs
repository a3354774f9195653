//! Values of placeholders.

use std::borrow::Cow;
use std::cell::OnceCell;

use http::header::COOKIE;
use regex::Captures;
use sluicegate_config::{Part, Placeholder, Template};

use super::matching::{PathMatch, parameters};
use crate::authority::host;
use crate::exchange::{RequestHead, cookie};
use crate::path::CanonicalPath;
use crate::peer::Peer;

/// Values of placeholders for one request.
pub(super) struct Values<'a> {
    head: &'a RequestHead,
    /// Client of the request, where a placeholder may name it.
    peer: Option<&'a Peer>,
    /// User that the request claims to come from.
    user: Option<&'a [u8]>,
    /// Pattern of the route that the request was found for.
    pattern: &'a PathMatch,
    groups: OnceCell<Option<Captures<'a>>>,
}

impl<'a> Values<'a> {
    pub(super) fn new(head: &'a RequestHead, pattern: &'a PathMatch) -> Values<'a> {
        Values { head, peer: None, user: None, pattern, groups: OnceCell::new() }
    }

    /// Returns these values, and those of the client.
    pub(super) fn with_peer(self, peer: &'a Peer) -> Values<'a> {
        let peer = Some(peer);
        Values { peer, ..self }
    }

    /// Returns these values, and the user. The request goes on only if the user's password is valid.
    pub(super) fn with_user(self, user: Option<&'a [u8]>) -> Values<'a> {
        Values { user, ..self }
    }

    /// Returns a text with the values in place of its placeholders.
    pub(super) fn text(&self, template: &Template) -> String {
        let mut text = String::new();
        for part in template.parts() {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Value(placeholder) => text.push_str(&self.value(placeholder)),
            }
        }
        text
    }

    /// Returns the value of a placeholder. Paths are in the spelling for other servers ([`CanonicalPath::forward`]).
    pub(super) fn value(&self, placeholder: &Placeholder) -> Cow<'a, str> {
        match placeholder {
            Placeholder::Host => host(&self.head.authority).into(),
            Placeholder::Path => self.path().forward(0).into(),
            Placeholder::Rest => self.rest().into(),
            Placeholder::Query => match &self.head.query {
                Some(query) => format!("?{query}").into(),
                None => "".into(),
            },
            Placeholder::Capture(group) => self.capture(*group).into(),
            Placeholder::Method => self.head.method.as_str().into(),
            Placeholder::Header(name) => self.field(name),
            Placeholder::Cookie(name) => {
                let value = cookie(&self.head.headers, name);
                value.map_or("".into(), String::from_utf8_lossy)
            }
            Placeholder::Parameter(name) => {
                let query = self.head.query.as_deref().unwrap_or_default();
                parameters(query, name).next().unwrap_or_default().into()
            }
            Placeholder::User => String::from_utf8_lossy(self.user.unwrap_or_default()),
            // Edits have the name of the field in its place.
            Placeholder::RequestId => "".into(),
            Placeholder::Scheme
            | Placeholder::Client
            | Placeholder::ClientPort
            | Placeholder::ClientSubject
            | Placeholder::ClientFingerprint
            | Placeholder::Listener => self.of_client(placeholder),
        }
    }

    /// Returns a value of the client; empty where it is not known.
    fn of_client(&self, placeholder: &Placeholder) -> Cow<'a, str> {
        let Some(peer) = self.peer else {
            return "".into();
        };
        let certificate = peer.connection.client_certificate.as_ref();
        match placeholder {
            Placeholder::ClientSubject => {
                certificate.map_or("".into(), |shown| shown.subject.to_string().into())
            }
            Placeholder::ClientFingerprint => {
                certificate.map_or("".into(), |shown| shown.fingerprint.to_string().into())
            }
            Placeholder::Scheme => peer.connection.scheme.into(),
            Placeholder::ClientPort => peer.address.port().to_string().into(),
            Placeholder::Listener => (*peer.connection.listener).into(),
            _ => peer.address.ip().to_canonical().to_string().into(),
        }
    }

    /// Returns the value of a field; its lines as one list if there are several (RFC 9110 §5.3), those of cookies as one
    /// line (RFC 9114 §4.2.1).
    fn field(&self, name: &str) -> Cow<'a, str> {
        let lines = self.head.headers.iter().filter(|(known, _)| known == name);
        let values = lines.map(|(_, value)| String::from_utf8_lossy(value.as_bytes()));
        let separator = if name == COOKIE { "; " } else { ", " };
        let joined = values.reduce(|all, value| format!("{all}{separator}{value}").into());
        joined.unwrap_or_default()
    }

    fn path(&self) -> &'a CanonicalPath {
        &self.head.path
    }

    /// Returns the path behind the route's prefix.
    fn rest(&self) -> &'a str {
        self.pattern.forward_rest(self.path())
    }

    /// Returns what a group of the route's regular expression matched.
    fn capture(&self, group: usize) -> &'a str {
        let groups = self.groups.get_or_init(|| self.pattern.captures(self.path()));
        let found = groups.as_ref().and_then(|groups| groups.get(group));
        found.map_or("", |found| self.path().forward_range(found.range()))
    }
}
