//! Changes to headers.

use crate::field::Record;
use crate::schema::{Kind, Table};

table! {
    /// Changes to a request's header before the handler of the route above receives it: first remove, then set, then
    /// add. Pass on what an application must know, or withhold what it must not.
    #[derive(Eq, Default)]
    pub struct HeaderEdits = [route.request_headers] {
        /// Fields that are removed.
        remove: Vec<String> { kind: Kind::FieldNames, default: "[]", examples: ["[\"x-powered-by\"]"], reload: Live },
        /// Fields with their values, which replace fields of the same name. Fields about the connection, the framing
        /// and the host cannot be set.
        set: Vec<(String, String)> {
            kind: Kind::Fields { many: false },
            default: "{}",
            examples: ["{ \"x-edge\" = \"frankfurt\" }"],
            reload: Live
        },
        /// Fields with their values, which are added to those that are there.
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
        summary: "Changes to the header of the response on the route above, interim responses and trailers excepted: first \
                  remove, then set, then add. Remove what tells too much, add what browsers must know, such as \
                  strict-transport-security.",
        ..*Self::TABLE
    };
}
