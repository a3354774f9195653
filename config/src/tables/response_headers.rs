//! Changes to the fields of responses, by status.

use super::StatusRange;
use super::headers::HeaderEdits;
use super::status_range::STATUSES;
use crate::error::Error;
use crate::field::Record as _;
use crate::schema::{Kind, Table};
use crate::section::Section;
use crate::words::canonical;

/// Most tables of a route, and of a site.
pub(super) const MAX_TABLES: usize = 8;

table! {
    /// Changes to the response's header before the client receives it, in the order remove, set, add. As with
    /// add_header of nginx, `set` and `add` change successes and redirects alone (2xx and 3xx, and a WebSocket's
    /// handshake), because caches would keep an error as long as the file that they asked for; `always` and `status` say
    /// otherwise. `remove` changes every response. A route with `fixed` changes its own response, whatever the
    /// status, unless that is the fallback of its files.
    /// Write several tables [[route.response_headers]], which are applied in their order, for different conditions:
    /// cache-control where a file is found, and strict-transport-security always. Errors of the server itself on this
    /// route, such as 403, 413, 429, 502 and 503, are changed like those of an upstream. The response to a request that
    /// no route matches and the redirect of http_address belong to no route. Interim responses (1xx) and trailers are
    /// not changed. Use it to remove fields that tell too much, or to add fields for browsers. Over HTTP/3, `priority`
    /// decides which of a connection's responses goes first, and takes precedence over the client's wishes: set it to
    /// "u=7" for downloads that yield to pages, and to a lower number, down to 0, for what is urgent.
    #[derive(Eq, Default)]
    pub struct ResponseHeaders = [route.response_headers], check: check_conditions {
        first ..
        /// The changes.
        edits: HeaderEdits,
        /// Whether `set` and `add` change every response, errors included. Turn it on for fields by which browsers protect
        /// users, such as strict-transport-security, content-security-policy and x-content-type-options, and for those
        /// without which scripts cannot read an error, such as access-control-allow-origin.
        always: bool { kind: Kind::Switch, default: "false", examples: ["true"], reload: Live },
        /// Statuses of the responses that this table changes, by `set`, `add` and `remove`.
        status: Vec<StatusRange> {
            kind: Kind::Words {
                words: STATUSES,
                each: "",
                min: 1,
                max: 16,
                read: |word| canonical(StatusRange::parse(word)),
            },
            unset: "2xx and 3xx for `set` and `add`, any for `remove`",
            examples: ["[\"200\", \"4xx\"]"],
            reload: Live
        },
    }
}

impl ResponseHeaders {
    /// Returns whether fields that the table sets or adds are in responses with a status.
    pub fn adds_to(&self, status: u16) -> bool {
        match &*self.status {
            [] => self.always || (200..400).contains(&status),
            ranges => ranges.iter().any(|range| range.has(status)),
        }
    }

    /// Returns whether fields that the table removes are removed from responses with a status.
    pub fn removes_from(&self, status: u16) -> bool {
        self.status.is_empty() || self.adds_to(status)
    }

    /// The same keys in the table of changes to the responses of a site.
    pub(crate) const OF_SITES: &'static Table = &Table {
        name: "site.response_headers",
        summary: "Changes to the headers of responses of the site above. The keys are those of [route.response_headers].",
        ..*Self::TABLE
    };
}

fn check_conditions(table: &mut ResponseHeaders, section: &Section<'_>) -> Result<(), Error> {
    if table.always && !table.status.is_empty() {
        let found = format!("both `always` and `status` in {}", section.table.header());
        let expected = "at most one of: always, status";
        return Err(section.source.error(section.position("status"), found, expected));
    }
    Ok(())
}
