//! Changes to the fields of responses, which depend on the status.

use http::{HeaderName, HeaderValue};
use sluicegate_config::{Handler, HeaderEdits, ResponseHeaders, Route};

use super::cors::Cors;
use super::edits::{Edits, FilledLines};
use super::values::Values;
use crate::exchange::{Fields, RequestHead};

/// Changes to the fields of a route's responses, in the order in which they are made.
#[derive(Debug, Default)]
pub(super) struct ResponseEdits {
    /// Fields for scripts of other origins, before all other changes.
    cors: Option<Cors>,
    changes: Vec<Conditional>,
}

/// Changes, and the responses that they change.
#[derive(Debug)]
struct Conditional {
    edits: Edits,
    statuses: ResponseHeaders,
    /// One more status of responses that are changed.
    also: Option<u16>,
}

/// Changes to the fields of a response: those of a route, with the values for a request.
#[derive(Clone, Debug)]
pub struct FilledEdits {
    lines: Vec<Option<FilledLines>>,
    /// Origin that may read the response.
    allowed_origin: Option<HeaderValue>,
}

impl ResponseEdits {
    /// Reads the changes of a route, those of its site included. `request_id` is the field with the ID of a request.
    ///
    /// # Errors
    /// A name or value cannot be sent; the configuration refuses these by the same rules.
    pub(super) fn new(
        route: &Route,
        request_id: Option<&HeaderName>,
    ) -> Result<ResponseEdits, String> {
        // What a route says beside a fixed status is about that status, whichever it is. A fallback's status is not the route's: what
        // is for files must not be in the 404 for those that are missing.
        let fixed = match &route.handler {
            Handler::Fixed(fixed) => Some(fixed.status),
            _ => None,
        };
        let tables = &route.settings().response_headers;
        let of_site = tables.len() - route.own.response_headers.len();
        let all = tables.iter().enumerate().map(|(place, table)| {
            Ok(Conditional {
                edits: Edits::new(&table.edits, request_id)?,
                also: fixed.filter(|_| place >= of_site && table.status.is_empty()),
                statuses: ResponseHeaders { edits: HeaderEdits::default(), ..table.clone() },
            })
        });
        Ok(ResponseEdits {
            changes: all.collect::<Result<_, String>>()?,
            cors: route.settings().cors.given().map(Cors::new).transpose()?,
        })
    }

    /// Returns the rules about scripts of other origins; `None` if there are none.
    pub(super) fn cors(&self) -> Option<&Cors> {
        self.cors.as_ref()
    }

    /// Returns whether a value has the ID of the request.
    pub(super) fn names_id(&self) -> bool {
        self.changes.iter().any(|one| one.edits.names_id())
    }

    /// Returns whether responses with a status may be changed.
    pub(super) fn change(&self, status: u16) -> bool {
        let changes = |one: &Conditional| {
            !one.edits.is_empty() && (one.adds_to(status) || one.statuses.removes_from(status))
        };
        self.cors.is_some() || self.changes.iter().any(changes)
    }

    /// Returns the lines for one request; `None` if they are the same for every request.
    pub(super) fn fill(&self, head: &RequestHead, values: &Values<'_>) -> Option<FilledEdits> {
        let lines: Vec<_> = self.changes.iter().map(|one| one.edits.fill(values)).collect();
        let allowed_origin = self.cors.as_ref().and_then(|cors| cors.allowed(head));
        let is_filled = allowed_origin.is_some() || lines.iter().any(Option::is_some);
        is_filled.then_some(FilledEdits { lines, allowed_origin })
    }

    /// Changes the fields of a response. `filled` is what [`ResponseEdits::fill`] returned for its request.
    pub(super) fn apply(&self, status: u16, fields: &mut Fields, filled: Option<FilledEdits>) {
        let (lines, origin) =
            filled.map_or_else(Default::default, |filled| (filled.lines, filled.allowed_origin));
        if let Some(cors) = &self.cors {
            cors.apply(fields, origin);
        }
        let mut filled = lines.into_iter();
        for one in &self.changes {
            let lines = filled.next().flatten();
            if one.adds_to(status) {
                one.edits.apply(fields, lines);
            } else if one.statuses.removes_from(status) {
                one.edits.only_remove(fields);
            }
        }
    }
}

impl Conditional {
    fn adds_to(&self, status: u16) -> bool {
        self.also == Some(status) || self.statuses.adds_to(status)
    }
}
