//! Keys of routes: which requests, and what is changed in them; the handlers have files of their own.

use super::{Given, Key, Kind, TIB, Table, millis, seconds};

/// What a route does not say of handlers of other kinds.
const OTHER: Given = Given::Unset("the route is of another kind");

pub(crate) static ROUTE: Table = Table {
    name: "route",
    many: true,
    summary: "What is answered to some requests. Of the routes that fit a request, the host decides first (a name \
              before a wildcard, the longest wildcard before the others, a route without `host` last), then the \
              longest path. What no route fits gets 404; where only the method does not fit, 405. Each route has \
              exactly one handler: fixed, generate, files, proxy or redirect.",
    keys: &[
        Key {
            name: "host",
            kind: Kind::Form {
                words: "a host such as \"example.com\", \"*.example.com\", \"192.0.2.1\" or \"[2001:db8::1]\", \
                        without a port, or a list of 1 to 64 of them",
            },
            given: Given::Unset("any host"),
            examples: &["\"example.com\"", "[\"example.org\", \"*.example.org\"]"],
            summary: "The hosts it is for. \"*.\" stands for one or more labels, so \"*.example.com\" fits \
                      a.example.com and a.b.example.com, but not example.com. Case and port do not matter; names in \
                      other alphabets are written in their xn-- form.",
        },
        Key {
            name: "path",
            kind: Kind::Form {
                words: "a path prefix that starts with \"/\", of up to 1024 visible ASCII characters without ? and #",
            },
            given: Given::Required("\"/\""),
            examples: &[],
            summary: "Prefix of the request paths it answers. No two routes may be for the same host, path and \
                      method.",
        },
        Key {
            name: "methods",
            kind: Kind::Form {
                words: "a method in upper case such as \"GET\", or a list of 1 to 32 of them, of up to 32 characters \
                        each",
            },
            given: Given::Unset("any method"),
            examples: &["[\"GET\", \"HEAD\"]"],
            summary: "The methods it is for. Name them to keep an application's writing part to one route, or to \
                      answer others with 405 before they reach it. Where two routes have the same host and path, \
                      the one that names the method comes before the one for any.",
        },
        Key {
            name: "fixed",
            kind: Kind::Table { words: "a table" },
            given: OTHER,
            examples: &["{ status = 204 }"],
            summary: "Answer with the same reply each time: the table [route.fixed] below.",
        },
        Key {
            name: "generate",
            kind: Kind::Table { words: "a table" },
            given: OTHER,
            examples: &["{}"],
            summary: "Answer with as many bytes as the path asks for: the table [route.generate] below.",
        },
        Key {
            name: "files",
            kind: Kind::Table { words: "a table" },
            given: OTHER,
            examples: &["{ root = \"/srv/www\" }"],
            summary: "Answer with files of a folder: the table [route.files] below.",
        },
        Key {
            name: "proxy",
            kind: Kind::Table { words: "a table" },
            given: OTHER,
            examples: &["{ upstreams = \"127.0.0.1:8080\" }"],
            summary: "Answer with what other servers answer: the table [route.proxy] below.",
        },
        Key {
            name: "redirect",
            kind: Kind::Table { words: "a table" },
            given: OTHER,
            examples: &["{ location = \"https://example.com{path}{query}\" }"],
            summary: "Answer with another place: the table [route.redirect] below.",
        },
        Key {
            name: "request_headers",
            kind: Kind::Table { words: "a table" },
            given: Given::Unset("no changes"),
            examples: &[],
            summary: "Changes to a request's header: the table [route.request_headers] below.",
        },
        Key {
            name: "response_headers",
            kind: Kind::Table { words: "a table" },
            given: Given::Unset("no changes"),
            examples: &[],
            summary: "Changes to the header of what is answered: the table [route.response_headers] below.",
        },
        Key {
            name: "request_body",
            kind: Kind::Size { min: 0, max: TIB },
            given: Given::Unset("limits.request_body"),
            examples: &["\"100MiB\""],
            summary: "Largest request body under this route; a larger one is answered with 413. Raise it where \
                      people upload.",
        },
        Key {
            name: "timeout",
            kind: Kind::Duration {
                min: millis(1),
                max: seconds(86_400),
            },
            given: Given::Unset("as long as something moves"),
            examples: &["\"5m\""],
            summary: "How long the whole exchange may take, from the request's head to the last byte of the \
                      response. Set it where nobody waits longer anyway; leave it unset for downloads, event streams \
                      and long polls.",
        },
    ],
    specs: &[],
};

pub(crate) static REQUEST_HEADERS: Table = Table {
    name: "route.request_headers",
    many: false,
    summary: "Changes to the header of a request, before the handler of the route above sees it: first remove, \
              then set, then add. Tell an application what it must know, or keep from it what it must not.",
    keys: &edits(
        &["[\"cookie\"]"],
        &["{ \"x-edge\" = \"frankfurt\" }"],
        &["{ \"via\" = \"3 edge\" }"],
    ),
    specs: &[],
};

pub(crate) static RESPONSE_HEADERS: Table = Table {
    name: "route.response_headers",
    many: false,
    summary: "Changes to the header of what the route above answers, interim responses and trailers excepted: first \
              remove, then set, then add. Take out what tells too much, add what browsers must know.",
    keys: &edits(
        &["[\"server\", \"x-powered-by\"]"],
        &["{ \"strict-transport-security\" = \"max-age=31536000\" }"],
        &["{ \"link\" = [\"</a.css>; rel=preload\", \"</b.js>; rel=preload\"] }"],
    ),
    specs: &[],
};

/// The keys of a table of changes, with examples for each.
const fn edits(
    remove: &'static [&'static str],
    set: &'static [&'static str],
    add: &'static [&'static str],
) -> [Key; 3] {
    [
        Key {
            name: "remove",
            kind: Kind::Form {
                words: "a field name, or a list of up to 64 of them",
            },
            given: Given::Default("[]"),
            examples: remove,
            summary: "Fields that are taken out.",
        },
        Key {
            name: "set",
            kind: Kind::Form {
                words: "a table of up to 64 field names with a string each",
            },
            given: Given::Default("{}"),
            examples: set,
            summary: "Fields with their values; they take the place of fields with the same name. Fields about the \
                      connection, the framing and the host are the server's own.",
        },
        Key {
            name: "add",
            kind: Kind::Form {
                words: "a table of up to 64 field names with a string or a list of strings each",
            },
            given: Given::Default("{}"),
            examples: add,
            summary: "Fields with their values that come on top of those that are there.",
        },
    ]
}
