//! Targets of redirects.

use http::HeaderValue;
use http::header::LOCATION;
use sluicegate_config::{Part, Placeholder, Redirect, Template};

use super::values::Values;
use crate::exchange::{Body, Reply};

/// Location of a redirect, with placeholders that each request fills.
#[derive(Clone, Debug)]
pub struct Location {
    status: u16,
    template: Template,
}

impl Location {
    pub(super) fn new(redirect: &Redirect) -> Location {
        Location { status: redirect.status, template: Template::new(&redirect.location) }
    }

    /// Returns a redirect to the same path with a slash behind it.
    pub(super) fn adding_slash() -> Location {
        Location { status: 308, template: Template::new("{path}/{query}") }
    }

    /// Returns the redirect; `None` if what the client sent yields no location.
    pub(super) fn reply(&self, values: &Values<'_>) -> Option<Reply> {
        let location = HeaderValue::try_from(self.fill(values)?).ok()?;
        Some(Reply {
            status: self.status,
            headers: vec![(LOCATION, location)].into(),
            body: Body::Empty,
        })
    }

    /// Returns the location; `None` if the client's path would choose another host, or if the host is missing.
    fn fill(&self, values: &Values<'_>) -> Option<String> {
        let mut location = String::new();
        for part in self.template.parts() {
            let placeholder = match part {
                Part::Text(text) => {
                    location.push_str(text);
                    continue;
                }
                Part::Value(placeholder) => placeholder,
            };
            let value = values.value(placeholder);
            // A request of HTTP/1.0 may name no host.
            if value.is_empty() && matches!(placeholder, Placeholder::Host) {
                return None;
            }
            if ends_in_host(&location) {
                match placeholder {
                    // Behind a host the rest must not become a part of the name.
                    Placeholder::Rest if !value.starts_with('/') => location.push('/'),
                    Placeholder::Capture(_) if !is_in_host(&value) => return None,
                    _ => {}
                }
            }
            location.push_str(&value);
        }
        // A client's path at the beginning must not become another host. Browsers read a backslash as a slash.
        let here = match self.template.parts().first() {
            Some(Part::Text(text)) => text.starts_with('/') && !text.starts_with("//"),
            Some(Part::Value(Placeholder::Path | Placeholder::Rest | Placeholder::Capture(_))) => {
                true
            }
            Some(Part::Value(_)) | None => false,
        };
        if here {
            let path = location.trim_start_matches(['/', '\\']);
            location = format!("/{path}");
        }
        Some(location)
    }
}

/// Returns whether further text would become a part of a host's name.
fn ends_in_host(location: &str) -> bool {
    let host = location.split_once("//").map(|(_, host)| host);
    host.is_some_and(|host| !host.contains('/'))
}

/// Returns whether a text may stand in a host's name and ends none.
fn is_in_host(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-.".contains(&b);
    text.bytes().all(plain)
}
