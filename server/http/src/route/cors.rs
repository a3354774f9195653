//! Scripts of other origins: responses to preflights, and fields of all other responses
//! (<https://fetch.spec.whatwg.org/#http-cors-protocol>).

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderName, HeaderValue};
use sluicegate_config::CorsOrigin;

use crate::exchange::{Body, Fields, Reply, RequestHead};

/// Fields that stand in place of those of upstreams.
const OWN: [HeaderName; 3] =
    [ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_EXPOSE_HEADERS];

/// Origins whose scripts may use a route, and what they may do.
#[derive(Debug)]
pub(super) struct Cors {
    /// `None` for all origins.
    origins: Option<Vec<CorsOrigin>>,
    /// Fields of every response for a script that may read it.
    fields: Fields,
    /// Further fields of responses to preflights.
    preflight: Fields,
}

impl Cors {
    /// Compiles the settings of a route.
    ///
    /// # Errors
    /// A name cannot be sent; the configuration refuses these by the same rules.
    pub(super) fn new(settings: &sluicegate_config::Cors) -> Result<Cors, String> {
        let list = |list: &[String]| {
            let list = list.join(", ");
            HeaderValue::try_from(&list).map_err(|_| list)
        };
        let mut fields = Fields::new();
        if settings.credentials {
            let on = HeaderValue::from_static("true");
            fields.push((ACCESS_CONTROL_ALLOW_CREDENTIALS, on));
        }
        if !settings.expose.is_empty() {
            fields.push((ACCESS_CONTROL_EXPOSE_HEADERS, list(&settings.expose)?));
        }
        let mut preflight = vec![(ACCESS_CONTROL_ALLOW_METHODS, list(&settings.methods)?)];
        if !settings.headers.is_empty() {
            preflight.push((ACCESS_CONTROL_ALLOW_HEADERS, list(&settings.headers)?));
        }
        if let Some(age) = settings.max_age {
            preflight.push((ACCESS_CONTROL_MAX_AGE, age.as_secs().into()));
        }
        let is_any = settings.origins.contains(&CorsOrigin::Any);
        let origins = (!is_any).then(|| settings.origins.clone());
        Ok(Cors { origins, fields, preflight })
    }

    /// Returns the value of access-control-allow-origin for a request; `None` if no script may read the response.
    pub(super) fn allowed(&self, head: &RequestHead) -> Option<HeaderValue> {
        let Some(origins) = &self.origins else {
            return Some(HeaderValue::from_static("*"));
        };
        let origin = only_line(head, &ORIGIN)?;
        let text = origin.to_str().ok()?;
        let is_known = origins.iter().any(|known| known.matches(text));
        is_known.then(|| origin.clone())
    }

    /// Returns the response to a preflight, without the fields of every response.
    pub(super) fn preflight(&self, head: &RequestHead) -> Reply {
        let is_allowed = self.allowed(head).is_some();
        let fields = if is_allowed { self.preflight.clone() } else { Fields::new() };
        Reply { status: 204, headers: fields.into(), body: Body::Empty }
    }

    /// Gives a response the fields of every response. `allowed` is what [`Cors::allowed`] returned for its request.
    pub(super) fn apply(&self, fields: &mut Fields, allowed: Option<HeaderValue>) {
        fields.retain(|(name, _)| !OWN.contains(name));
        if let Some(allowed) = allowed {
            fields.push((ACCESS_CONTROL_ALLOW_ORIGIN, allowed));
            fields.extend(self.fields.iter().cloned());
        }
        if self.origins.is_some() && !varies(fields) {
            fields.push((VARY, HeaderValue::from_static("Origin")));
        }
    }
}

/// Returns the method of the request that a preflight is about; `None` if the request is no preflight.
pub(super) fn method_of_preflight(head: &RequestHead) -> Option<&str> {
    if head.method != "OPTIONS" {
        return None;
    }
    only_line(head, &ORIGIN)?;
    only_line(head, &ACCESS_CONTROL_REQUEST_METHOD)?.to_str().ok()
}

/// Returns the value of a field that a request has once.
fn only_line<'a>(head: &'a RequestHead, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut lines = head.headers.iter().filter(|(known, _)| known == name);
    let (_, value) = lines.next()?;
    lines.next().is_none().then_some(value)
}

/// Returns whether a response already says that it depends on the origin.
fn varies(fields: &Fields) -> bool {
    let lines = fields.iter().filter(|(name, _)| name == VARY);
    let mut words = lines.flat_map(|(_, line)| line.as_bytes().split(|byte| *byte == b','));
    words.any(|word| {
        matches!(word.trim_ascii(), b"*") || word.trim_ascii().eq_ignore_ascii_case(b"origin")
    })
}
