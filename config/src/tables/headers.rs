//! Changes to headers.

use crate::field::Record;
use crate::schema::{Kind, Table};

table! {
    /// Changes to the header of a request, before the handler of the route above sees it: first remove, then set, then
    /// add. Tell an application what it must know, or keep from it what it must not.
    #[derive(Eq, Default)]
    pub struct HeaderEdits = [route.request_headers] {
        /// Fields that are taken out.
        remove: Vec<String> { kind: Kind::FieldNames, default: "[]", examples: ["[\"x-powered-by\"]"], reload: Live },
        /// Fields with their values; they take the place of fields with the same name. Fields about the connection, the
        /// framing and the host are the server's own.
        set: Vec<(String, String)> {
            kind: Kind::Fields { many: false },
            default: "{}",
            examples: ["{ \"x-edge\" = \"frankfurt\" }"],
            reload: Live
        },
        /// Fields with their values that come on top of those that are there.
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
        summary: "Changes to the header of what the route above answers, interim responses and trailers excepted: first \
                  remove, then set, then add. Take out what tells too much, add what browsers must know, such as \
                  strict-transport-security.",
        ..*Self::TABLE
    };
}
