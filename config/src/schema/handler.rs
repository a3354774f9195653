//! Keys of the handlers that answer by themselves, and of redirects.

use super::{Given, Key, Kind, TIB, Table};

pub(crate) static FIXED: Table = Table {
    name: "route.fixed",
    many: false,
    summary: "The route above answers with the same reply each time.",
    keys: &[
        Key {
            name: "status",
            kind: Kind::Count {
                min: 200,
                max: 599,
                unit: "",
            },
            given: Given::Default("200"),
            examples: &["404"],
            summary: "Status of the reply. 204, 205 and 304 have no body.",
        },
        Key {
            name: "content_type",
            kind: Kind::FieldValue { max: 256 },
            given: Given::Default("\"text/plain; charset=utf-8\""),
            examples: &["\"text/html; charset=utf-8\""],
            summary: "Media type of the body.",
        },
        Key {
            name: "body",
            kind: Kind::Text { max: 1 << 20 },
            given: Given::Default("\"\""),
            examples: &["\"It works.\\n\""],
            summary: "The body itself.",
        },
        Key {
            name: "body_file",
            kind: Kind::Path,
            given: Given::Unset("the body is the one above"),
            examples: &["\"pages/index.html\""],
            summary: "A file with the body, read at start, in place of `body`.",
        },
    ],
    specs: &[],
};

pub(crate) static GENERATE: Table = Table {
    name: "route.generate",
    many: false,
    summary: "The route above answers path/<size> with that many bytes, for measurements: /bytes/10MiB, /bytes/5000.",
    keys: &[Key {
        name: "max_size",
        kind: Kind::Size { min: 1, max: TIB },
        given: Given::Default("\"1GiB\""),
        examples: &[],
        summary: "Largest size that is answered; a larger one gets 404. Each open response holds no more memory \
                  than limits.send_buffer, whatever its size.",
    }],
    specs: &[],
};

pub(crate) static FILES: Table = Table {
    name: "route.files",
    many: false,
    summary: "The route above answers GET and HEAD with files: the path behind the route's prefix is looked up below \
              a folder, and nothing outside it is reached. Files are looked at once in limits.file_cache_valid at \
              most.",
    keys: &[
        Key {
            name: "root",
            kind: Kind::Path,
            given: Given::Required("\"/srv/www\""),
            examples: &[],
            summary: "The folder. Hidden files below it (a dot in front) are not served, .well-known apart. It is looked up for \
                      each request, so another one may be put in its place.",
        },
        Key {
            name: "index",
            kind: Kind::Form {
                words: "a file name without \"/\", or a list of up to 16 of them, of up to 255 bytes each",
            },
            given: Given::Default("[\"index.html\"]"),
            examples: &["[]"],
            summary: "Files that answer for a folder: the first of them that is there. Without any, folders get 404.",
        },
        Key {
            name: "precompressed",
            kind: Kind::Switch,
            given: Given::Default("true"),
            examples: &[],
            summary: "Whether name.br, name.zst or name.gz beside a file answers for it where the client takes that \
                      coding, unless it is older than the file. Turn it off where such files are documents of their own.",
        },
        Key {
            name: "symlinks",
            kind: Kind::Choice {
                among: &["never", "inside", "follow"],
            },
            given: Given::Default("\"inside\""),
            examples: &[],
            summary: "Symbolic links that are followed: none, those that lead to a place below the folder (an absolute \
                      link counts as leading elsewhere), or all. \
                      With follow, whoever may write in the folder chooses what is served.",
        },
    ],
    specs: &[],
};

pub(crate) static REDIRECT: Table = Table {
    name: "route.redirect",
    many: false,
    summary: "The route above answers with another place.",
    keys: &[
        Key {
            name: "status",
            kind: Kind::Number {
                among: &[301, 302, 303, 307, 308],
            },
            given: Given::Default("308"),
            examples: &["302"],
            summary: "Status of the answer. 301 and 308 hold for good and are remembered by browsers; 302, 303 and \
                      307 hold for this time. 307 and 308 keep the method, 303 makes it GET.",
        },
        Key {
            name: "location",
            kind: Kind::Form {
                words: "a URL or path of 1 to 2048 characters that may stand in one, with {host}, {path}, {query} and \
                        {rest} as placeholders",
            },
            given: Given::Required("\"https://example.com{path}{query}\""),
            examples: &["\"/new/{rest}{query}\""],
            summary: "The other place. {host} stands for the host that was asked for, {path} for the request's path, \
                      {rest} for what follows the route's prefix in it, {query} for the query with its ?, if there is \
                      one.",
        },
    ],
    specs: &[],
};
