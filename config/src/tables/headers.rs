//! Changes to headers.

use crate::field::{Record, tables_as_parts};
use crate::schema::{Kind, Table};

table! {
    /// Changes to the request's header before the handler of the route above receives it, in the order remove, set,
    /// add. Use them to pass facts to an application, or to withhold fields from it.
    #[derive(Eq, Default)]
    pub struct HeaderEdits = [route.request_headers] {
        /// Names of the fields that are removed, also of those that the server adds itself: on requests to upstreams
        /// via, forwarded, x-forwarded-for, x-forwarded-host and x-forwarded-proto, and on responses server.
        remove: Vec<String> { kind: Kind::FieldNames, default: "[]", examples: ["[\"x-powered-by\"]"], reload: Live },
        /// Fields with their values. Each replaces all fields and trailers of the same name, in which _ counts as -, because many applications do not tell them apart. Fields about the connection, the
        /// framing and the host cannot be set. Placeholders in a value are {host}, {path}, {rest}, {query} with its "?",
        /// {method}, {request_id} (see `[tracing]`), {header:NAME}, {cookie:NAME}, {query:NAME} and {capture:1} to {capture:9},
        /// in requests also {user} (of `basic_auth`), {scheme}, {client}, {client_port}, {listener}, {client_subject} and {client_fingerprint} (SHA-256, of the certificate that
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
    /// Returns the changes of a site with these of its route after them.
    pub(super) fn after(&self, site: &Self) -> Self {
        // As the server compares them.
        let same = |one: &str, other: &str| one.replace('_', "-") == other.replace('_', "-");
        let changed = |name: &String| {
            let mut set = self.set.iter().map(|(set, _)| set);
            self.remove.iter().any(|own| same(own, name)) || set.any(|own| same(own, name))
        };
        let after = |first: &[(String, String)], own: &[(String, String)]| {
            let first = first.iter().filter(|(name, _)| !changed(name));
            first.chain(own).cloned().collect()
        };
        let removed = site.remove.iter().filter(|name| !self.remove.contains(name));
        Self {
            remove: removed.chain(&self.remove).cloned().collect(),
            set: after(&site.set, &self.set),
            add: after(&site.add, &self.add),
        }
    }

    /// The same keys in the table of changes to the requests of a site.
    pub(crate) const OF_SITES_REQUESTS: &'static Table = &Table {
        name: "site.request_headers",
        summary: "Changes to the headers of requests to the site above. The keys are those of [route.request_headers].",
        ..*Self::TABLE
    };
}

tables_as_parts!(HeaderEdits);
