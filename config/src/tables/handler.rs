//! Handlers that need no upstream: fixed and generated responses, files, redirects.

use std::path::PathBuf;

use crate::error::Error;
use crate::field::{OrWord, Record};
use crate::schema::{Kind, Reason, Refusal, TIB, choice, count, size};
use crate::section::Section;
use crate::source::shown;
use crate::template::{self, IN_LOCATIONS};

const MAX_FILE_NAME: usize = 255;
const MAX_CANDIDATE: usize = 1024;
const MAX_LOCATION: usize = 2048;

/// Names of the files that may represent a folder.
pub(super) const FILE_NAMES: Kind = Kind::Words {
    words: "a file name without \"/\"",
    each: ", of up to 255 bytes each",
    min: 0,
    max: 16,
    read: file_name,
};

table! {
    /// The route above returns the same response to every request, whatever its method; to HEAD without the body.
    #[derive(Eq)]
    pub struct Fixed = [route.fixed], check: check_fixed {
        /// Status of the response. 204, 205 and 304 have no body.
        status: u16 { kind: count(200, 599, ""), default: "200", examples: ["404"], reload: Live },
        /// Media type of the body (Content-Type).
        content_type: String {
            kind: Kind::FieldValue { max: 256 },
            default: "\"text/plain; charset=utf-8\"",
            examples: ["\"text/html; charset=utf-8\""],
            reload: Live
        },
        /// Body of the response.
        body: Option<String> {
            kind: Kind::Text { max: 1 << 20 },
            unset: "the body is empty, or that of `body_file`",
            examples: ["\"It works.\\n\""],
            reload: Live
        },
        /// File with the body of the response, instead of `body`. It is read at start and at each reload.
        body_file: Option<PathBuf> {
            kind: Kind::Path,
            unset: "`body` is used",
            examples: ["\"pages/index.html\""],
            reload: Live
        },
    }
}

fn check_fixed(fixed: &mut Fixed, section: &Section<'_>) -> Result<(), Error> {
    let refused = |key: &str, found: String, expected: &str| {
        Err(section.source.error(section.position(key), found, expected))
    };
    let given = match (&fixed.body, &fixed.body_file) {
        (Some(_), Some(_)) => {
            let found = "both `body` and `body_file` in [route.fixed]".to_owned();
            return refused("body_file", found, "at most one of: body, body_file");
        }
        (Some(body), None) if !body.is_empty() => "body",
        (None, Some(_)) => "body_file",
        _ => return Ok(()),
    };
    if matches!(fixed.status, 204 | 205 | 304) {
        let found = format!("`{given}` with status {}", fixed.status);
        return refused(given, found, "no body for 204, 205 and 304");
    }
    Ok(())
}

table! {
    /// The route above returns as many bytes as the rest of the path says, for measurements. On a route for /bytes/, a
    /// request for /bytes/10MiB gets 10 MiB, and one for /bytes/5000 gets 5000 bytes.
    #[derive(Eq)]
    pub struct Generate = [route.generate] {
        /// Largest size that a request may ask for; a larger one gets 404. It bounds traffic, not memory: however large
        /// the response is, at most limits.connection_send_buffer of it wait in memory.
        max_size: u64 { kind: size(1, TIB), default: "\"1GiB\"", reload: Live },
    }
}

table! {
    /// The route above serves files to GET and HEAD requests. With a second handler beside it (proxy, fastcgi, fixed or redirect), as
    /// in files = { root = "/srv/www" } and proxy = { pool = "app" } in one route, that one takes the requests for which no
    /// file exists, those with other methods, and those for a WebSocket, as try_files of nginx does with a named location;
    /// a folder without an index does not exist then, nor does a hidden name, nor, beside fastcgi, a script. All settings of the route hold for both. The part of the request's path that follows the route's
    /// `path` is looked up below a folder, and nothing outside the folder is opened unless `symlinks` allows it.
    /// Small files stay in memory, once for all workers; limits.file_cache_valid bounds the time until they notice a change. A worker
    /// sends at most 1024 other files at a time; then the client that receives most of them gives way: its further
    /// requests get 503, and a request of a client that receives fewer resets its oldest response. Entity tags are made
    /// of a file's size and time of change, so servers with the same files send the same tags if their files have the
    /// same times. If you change the content of a file, do not restore its size and time, or clients keep the old
    /// content.
    #[derive(Eq)]
    pub struct Files = [route.files] {
        /// Folder of the files. Hidden files and folders below it (their names begin with a dot) are not served, except
        /// .well-known. Each request resolves the path of the folder again, so you can replace the folder, or a link to
        /// it, at any time.
        root: PathBuf { kind: Kind::Path, required: "\"/srv/www\"", reload: Live },
        /// Names of the files that represent a folder; the first one that exists is served. With an empty list, folders
        /// get 404.
        index: Vec<String> {
            kind: FILE_NAMES,
            default: "[\"index.html\"]",
            examples: ["[]"],
            reload: Live
        },
        /// Files that are tried one after the other; the first that exists is served. Without one the response is 404, or
        /// that of the route's other handler.
        /// {path} is the part of the request's path after the route's prefix; other names start with "/" and stand below
        /// `root`. End the list with "/index.html" for an application that handles its paths in the browser, or put
        /// "{path}.html" into it for pages whose URLs have no suffix. A path with a hidden name names no file.
        candidates as try: Vec<String> {
            kind: Kind::Words {
                words: "\"{path}\", \"{path}\" with a suffix such as \".html\", or a path such as \"/index.html\"",
                each: "",
                min: 1,
                max: 16,
                read: candidate,
            },
            default: "[\"{path}\"]",
            examples: ["[\"{path}\", \"{path}.html\", \"/index.html\"]"],
            reload: Live
        },
        /// Whether a client gets name.br, name.zst or name.gz instead of the file name, if the compressed file exists,
        /// is not older than name, and has a coding that the client accepts. Turn it off if such files are documents of
        /// their own.
        precompressed: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// Symbolic links below `root` that are followed. never: none. inside: links to a target below `root`; a link
        /// with an absolute target counts as one that leads outside. follow: all of them; then everybody who can create
        /// a link in the folder decides which files are served. `root` itself may be a link in any case.
        symlinks: Symlinks { kind: choice(Symlinks::WORDS), default: "\"inside\"", reload: Live },
        /// Media types of files, by the suffix of their names; they replace those that the server knows. They are sent
        /// as they stand here, without an added charset. Set it for suffixes that the server does not know, or for text
        /// in another charset than UTF-8.
        mime_types: Vec<(String, String)> {
            kind: Kind::MediaTypes,
            default: "{}",
            examples: ["{ \"wasm\" = \"application/wasm\", \"txt\" = \"text/plain; charset=iso-8859-1\" }"],
            reload: Live
        },
    }
}

words! {
    /// Symbolic links below [`Files::root`] that are followed.
    pub enum Symlinks {
        /// No links.
        Never = "never",
        /// Links to a target below the root.
        Inside = "inside",
        /// All links.
        Follow = "follow",
    }
}

/// Reads a path below a folder that may begin with `{path}`.
fn candidate(word: &str) -> Result<String, Refusal> {
    let advice = |expected: &str| {
        Refusal::because(Reason {
            found: format!("\"{}\" for `try`", shown(word)),
            expected: expected.to_owned(),
            nearest: None,
        })
    };
    // nginx's last parameter and its variables.
    if word.starts_with('@') {
        return Err(advice(
            "files alone; put the other handler into the same route, such as proxy = { pool = \"app\" }",
        ));
    }
    if word.starts_with('=') {
        return Err(advice(
            "files alone; without one the response is 404, or that of a second handler in the route",
        ));
    }
    let name = word.strip_prefix("{path}").unwrap_or(word);
    if name.contains(['$', '{', '}']) {
        return Err(advice("no placeholder but {path} at the start"));
    }
    let plain = |b: u8| b.is_ascii_graphic() && !b"?#%\\".contains(&b);
    let fits = word.len() <= MAX_CANDIDATE && name.bytes().all(plain);
    let is_place = name.split('/').any(|name| name == "." || name == "..");
    if fits && !is_place && (word.starts_with("{path}") || word.starts_with('/')) {
        Ok(word.to_owned())
    } else {
        Err(Refusal::default())
    }
}

/// Reads the name of a file in a folder.
fn file_name(word: &str) -> Result<String, Refusal> {
    let place = word == "." || word == "..";
    let fits = (1..=MAX_FILE_NAME).contains(&word.len()) && !word.contains(['/', '\0']);
    if fits && !place { Ok(word.to_owned()) } else { Err(Refusal::default()) }
}

/// Target of a redirect in words.
const LOCATION: &str = "a URL or path of 1 to 2048 characters that may stand in one, with {host}, {path}, {query}, {rest} and \
                        {capture:1} to {capture:9} as placeholders";

/// Status of a redirect of which only the target is given; the default of `status`.
pub(crate) const REDIRECT_STATUS: u16 = 308;

table! {
    /// The route above redirects to another URL.
    #[derive(Eq)]
    pub struct Redirect = [route.redirect] {
        /// Status of the redirect. 301 and 308 are permanent, and browsers remember them; 302, 303 and 307 are
        /// temporary. 307 and 308 keep the method, 303 changes it to GET.
        status: u16 {
            kind: Kind::Number { among: &[301, 302, 303, 307, 308] },
            default: "308",
            examples: ["302"],
            reload: Live
        },
        /// Target of the redirect, with placeholders: {host} is the request's host, {path} its path, {rest} the part of
        /// the path after the route's prefix, {query} the query with its "?", or nothing if the request has none, and
        /// {capture:1} what the first group of the route's regular expression matched. A dollar sign is written %24, so
        /// that variables of other servers, such as $host, are noticed.
        location: String {
            kind: Kind::Word { words: LOCATION, read: location },
            required: "\"https://example.com{path}{query}\"",
            examples: ["\"/new/{rest}{query}\""],
            reload: Live
        },
    }
}

impl OrWord for Redirect {
    const KIND: Kind = Kind::WordOrTable { words: LOCATION, table: Self::TABLE, read: location };

    fn of_word(location: String) -> Self {
        Self { status: REDIRECT_STATUS, location }
    }
}

/// Reads a URI reference (RFC 3986 §4.1) with placeholders and without `$`.
fn location(word: &str) -> Result<String, Refusal> {
    read_location(word, "location", IN_LOCATIONS)
}

/// Reads the target of a redirect that `key` names, with these placeholders.
pub(crate) fn read_location(
    word: &str,
    key: &str,
    known: &[&'static str],
) -> Result<String, Refusal> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:/?#[]@!&'()*+,;=%".contains(&b);
    template::check(word, key, known, plain)?;
    if (1..=MAX_LOCATION).contains(&word.len()) {
        Ok(word.to_owned())
    } else {
        Err(Refusal::default())
    }
}
