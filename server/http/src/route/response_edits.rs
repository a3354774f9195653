//! Changes to the fields of responses, which depend on the status.

use http::HeaderName;
use sluicegate_config::{Handler, HeaderEdits, ResponseHeaders, Route};

use super::edits::{Edits, FilledLines};
use super::values::Values;
use crate::exchange::Fields;

/// Changes to the fields of a route's responses, in the order in which they are made.
#[derive(Debug, Default)]
pub(super) struct ResponseEdits(Vec<Conditional>);

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
pub struct FilledEdits(Vec<Option<FilledLines>>);

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
        all.collect::<Result<_, _>>().map(ResponseEdits)
    }

    /// Returns whether a value has the ID of the request.
    pub(super) fn names_id(&self) -> bool {
        self.0.iter().any(|one| one.edits.names_id())
    }

    /// Returns whether responses with a status may be changed.
    pub(super) fn change(&self, status: u16) -> bool {
        let changes = |one: &Conditional| {
            !one.edits.is_empty() && (one.adds_to(status) || one.statuses.removes_from(status))
        };
        self.0.iter().any(changes)
    }

    /// Returns the lines for one request; `None` if they are the same for every request.
    pub(super) fn fill(&self, values: &Values<'_>) -> Option<FilledEdits> {
        let filled: Vec<_> = self.0.iter().map(|one| one.edits.fill(values)).collect();
        filled.iter().any(Option::is_some).then(|| FilledEdits(filled))
    }

    /// Changes the fields of a response. `filled` is what [`ResponseEdits::fill`] returned for its request.
    pub(super) fn apply(&self, status: u16, fields: &mut Fields, filled: Option<FilledEdits>) {
        let mut filled = filled.into_iter().flat_map(|filled| filled.0);
        for one in &self.0 {
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
