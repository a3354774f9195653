//! Changes to headers.

use crate::field::Record;
use crate::schema::{Kind, Table};

table! {
    /// Changes to the request's header before the handler of the route above receives it, in the order remove, set,
    /// add. Use them to pass facts to an application, or to withhold fields from it.
    #[derive(Eq, Default)]
    pub struct HeaderEdits = [route.request_headers] {
        /// Names of the fields that are removed, also of those that the server adds itself: on requests to upstreams
        /// via, forwarded, x-forwarded-for, x-forwarded-host and x-forwarded-proto, and on responses server.
        remove: Vec<String> { kind: Kind::FieldNames, default: "[]", examples: ["[\"x-powered-by\"]"], reload: Live },
        /// Fields with their values. Each replaces all fields of the same name. Fields about the connection, the
        /// framing and the host cannot be set. Placeholders in a value are {host}, {path}, {rest}, {query} with its "?",
        /// {method}, {header:NAME}, {cookie:NAME}, {query:NAME} and {capture:1} to {capture:9}, in requests also {scheme},
        /// {client}, {client_port}, {listener}, {client_subject} and {client_fingerprint} (SHA-256, of the certificate that
        /// client_ca of a listener asks for); those of responses stand for values of the client's request, too. A
        /// field whose value is empty for a request is not sent. A brace before anything but a lower-case letter stands
        /// for itself, and {{ for a brace before one.
        set: Vec<(String, String)> {
            kind: Kind::Fields { many: false },
            default: "{}",
            examples: ["{ \"x-edge\" = \"frankfurt\" }", "{ \"x-requested-host\" = \"{host}\" }"],
            reload: Live
        },
        /// Fields with their values, which are added to fields of the same name.
        add: Vec<(String, String)> {
            kind: Kind::Fields { many: true },
            default: "{}",
            examples: ["{ \"link\" = [\"</a.css>; rel=preload\", \"</b.js>; rel=preload\"] }"],
            reload: Live
        },
    }
}

impl HeaderEdits {
    /// The same keys in the table of changes to responses.
    pub(crate) const OF_RESPONSES: &'static Table = &Table {
        name: "route.response_headers",
        summary: "Changes to the response's header before the client receives it, in the order remove, set, add. Interim \
                  responses (1xx) and trailers are not changed. Use them to remove fields that tell too much, or to add \
                  fields for browsers, such as strict-transport-security.",
        ..*Self::TABLE
    };
}
