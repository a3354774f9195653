//! Compression of responses.

use std::fmt;
use std::sync::Arc;

use toml::de::DeValue;

use crate::error::Error;
use crate::field::{Field, words_in_fields};
use crate::schema::{Key, Kind, MIB, Reason, Refusal, TIB, count, size};
use crate::source::shown;
use crate::value::{Item, Word};
use crate::words::token;

const MAX_TYPE: usize = 100;

table! {
    /// Compression of responses. A route compresses if its `compress` is true, or if `enabled` is and the route does not
    /// say otherwise. Compressed are responses of files and of upstreams, `fixed` ones and error pages, whose client
    /// accepts one of the algorithms (Accept-Encoding, with its weights) and whose type and length fit; a response that
    /// already has a Content-Encoding, that says `Cache-Control: no-transform`, or that is a part of a file is sent as
    /// it is. So is every response of a route whose `response_headers` set or remove Content-Encoding, or set that
    /// directive, and the error page of a request that the server ends early, for instance for want of memory. Files that
    /// lie compressed beside the original (`precompressed`) come first and cost nothing. Small files are compressed once for
    /// limits.file_cache, `fixed` responses and error pages when the configuration is read, all others while they are
    /// sent. A response that compression may change has `Vary: accept-encoding`. One that is
    /// compressed while it is sent has no Content-Length, and its strong entity tag becomes a weak one (RFC 9110 §8.8.1):
    /// caches can still use it, If-Match and If-Range cannot.
    /// Do not compress pages that contain both a secret, such as a token against forged requests, and text that others
    /// choose, such as a search term: the length of the compressed page tells an observer whether the two are alike
    /// (BREACH). Set `compress = false` on their routes.
    #[derive(Eq)]
    pub struct Compress = [compress] {
        /// Whether routes compress that do not say so themselves.
        enabled: bool { kind: Kind::Switch, default: "false", examples: ["true"], reload: Live },
        /// Algorithms; of those that a client weights the same, the first is used. zstd compresses as well as the others in a
        /// third of their CPU time. Current browsers know all three; gzip is for everything else.
        algorithms: Vec<CompressionAlgorithm> {
            kind: Kind::Words {
                words: "\"zstd\", \"br\" or \"gzip\"",
                each: "",
                min: 1,
                max: 3,
                read: algorithm,
            },
            default: "[\"zstd\", \"br\", \"gzip\"]",
            examples: ["\"gzip\""],
            reload: Live
        },
        /// Media types that are compressed. "text/*" stands for all types of text except text/event-stream, and
        /// "application/*+json" for all types with this suffix. text/event-stream is compressed if it is named; each event
        /// is still sent at once. Calls of gRPC are not compressed, whatever stands here. Images, video, audio, archives
        /// and WOFF2 fonts are compressed already.
        types: Vec<MediaRange> {
            kind: Kind::Words {
                words: "a media type such as \"application/json\", \"text/*\" or \"application/*+json\", without parameters",
                each: "",
                min: 1,
                max: 64,
                read: media_range,
            },
            unset: "text/*, application/json, javascript, xml, wasm, *+json and *+xml, image/svg+xml, font/ttf and otf",
            examples: ["[\"text/html\", \"text/css\", \"text/javascript\", \"application/json\"]"],
            reload: Live
        },
        /// Length below which a response is sent as it is: one that fits into a packet or two arrives no sooner if it is
        /// shorter. A response whose length is not known in advance is compressed.
        min_size: u64 { kind: size(0, 64 * MIB), default: "\"1KiB\"", reload: Live },
        /// Level of zstd. Higher ones save a few percent of the bytes for several times the CPU time.
        zstd_level: u64 { kind: count(1, 6, ""), default: "3", reload: Live },
        /// Level of Brotli. Levels beyond these take tens of megabytes for each response; compress files with them in
        /// advance.
        br_level: u64 { kind: count(1, 6, ""), default: "4", reload: Live },
        /// Level of gzip.
        gzip_level: u64 { kind: count(1, 9, ""), default: "5", reload: Live },
        /// Memory of each worker for responses that are being compressed. One takes 0.4 MiB with gzip, 1.3 MiB with zstd
        /// and 1.5 MiB with Brotli, and 3 MiB above the default levels of the two. A client takes no more than it leaves to
        /// others: alone it gets half. Responses beyond that are sent uncompressed, and counted by
        /// sluicegate_compress_skipped_total. All workers together get 12 % of server.memory_limit at most, even if this
        /// key says more, but each one 3 MiB; with 0 that is the only limit.
        memory: u64 { kind: size(0, TIB), default: "\"128MiB\"", reload: Live },
    }
}

/// Media types that are compressed unless the file names others.
const TYPES: [&str; 10] = [
    "text/*",
    "application/json",
    "application/javascript",
    "application/xml",
    "application/wasm",
    "application/*+json",
    "application/*+xml",
    "image/svg+xml",
    "font/ttf",
    "font/otf",
];

impl Compress {
    /// Returns whether a media type in lower case, without parameters, is compressed.
    pub fn has_type(&self, media_type: &str) -> bool {
        if self.types.is_empty() {
            TYPES.iter().any(|range| range_has(range, media_type))
        } else {
            self.types.iter().any(|range| range_has(&range.0, media_type))
        }
    }
}

/// Algorithm of compression, which is a content coding (RFC 9110 §8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionAlgorithm {
    /// Zstandard (RFC 8878).
    Zstd,
    /// Brotli (RFC 7932).
    Brotli,
    /// gzip (RFC 1952).
    Gzip,
}

impl fmt::Display for CompressionAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        })
    }
}

impl Word for CompressionAlgorithm {
    fn of_canonical(word: String) -> Option<Self> {
        Some(match word.as_str() {
            "zstd" => Self::Zstd,
            "br" => Self::Brotli,
            "gzip" => Self::Gzip,
            _ => return None,
        })
    }
}

/// Media types: one, or all of a kind, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaRange(String);

fn range_has(range: &str, media_type: &str) -> bool {
    let Some((start, end)) = range.split_once('*') else {
        return range == media_type;
    };
    let rest = media_type.strip_prefix(start);
    // An event stream is compressed only where it is named.
    media_type != "text/event-stream"
        && rest.is_some_and(|rest| rest.len() > end.len() && rest.ends_with(end))
}

impl fmt::Display for MediaRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Word for MediaRange {
    fn of_canonical(word: String) -> Option<Self> {
        Some(Self(word))
    }
}

words_in_fields!(CompressionAlgorithm, MediaRange);

/// Compression of a route's responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteCompression {
    /// Value of the key; `None` if the route does not have it.
    switch: Option<bool>,
    /// Settings in effect; `None` if nothing is compressed.
    settings: Option<Arc<Compress>>,
}

impl RouteCompression {
    /// Returns the settings; `None` if nothing is compressed.
    pub fn settings(&self) -> Option<&Arc<Compress>> {
        self.settings.as_ref()
    }

    pub(super) fn or(&self, site: &Self) -> Self {
        Self { switch: self.switch.or(site.switch), settings: None }
    }

    /// Takes the settings of the server, if the route compresses.
    pub(super) fn resolve(&mut self, server: &Arc<Compress>) {
        let on = self.switch.unwrap_or(server.enabled);
        self.settings = on.then(|| Arc::clone(server));
    }
}

impl Field for RouteCompression {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        let switch = item.switch().map_err(|error| match &*item.value {
            DeValue::Array(_) | DeValue::Table(_) | DeValue::String(_) => Error {
                expected: "true or false; the table [compress] has the settings".to_owned(),
                ..error
            },
            _ => error,
        })?;
        Ok(Self { switch: Some(switch), settings: None })
    }

    fn unset() -> Option<Self> {
        Some(Self::default())
    }

    fn print(&self, _: &Key) -> Option<String> {
        self.switch.map(|on| on.to_string())
    }
}

/// Reads an algorithm by any name that servers give it.
fn algorithm(word: &str) -> Result<String, Refusal> {
    let name = match word {
        "zstd" | "br" | "gzip" => word,
        other => {
            let nearest = match other.to_ascii_lowercase().as_str() {
                "brotli" | "br" => "br",
                "gz" | "gzip" | "deflate" => "gzip",
                "zst" | "zstd" | "zstandard" => "zstd",
                _ => return Err(Refusal::default()),
            };
            return Err(Refusal::because(Reason {
                found: format!("\"{}\" for `algorithms`", shown(other)),
                expected: "\"zstd\", \"br\" or \"gzip\"".to_owned(),
                nearest: Some(nearest.to_owned()),
            }));
        }
    };
    Ok(name.to_owned())
}

/// Reads a media type that may have a `*` for its subtype, or in front of the subtype's suffix.
fn media_range(word: &str) -> Result<String, Refusal> {
    let lower = word.to_ascii_lowercase();
    let fits = lower.split_once('/').is_some_and(|(kind, subtype)| {
        if kind.contains('*') {
            return false;
        }
        let subtype = match subtype.strip_prefix('*') {
            Some("") => return token(kind, MAX_TYPE),
            Some(suffix) if suffix.starts_with('+') => suffix,
            Some(_) => return false,
            None => subtype,
        };
        token(kind, MAX_TYPE) && token(subtype, MAX_TYPE) && !subtype.contains('*')
    });
    if fits { Ok(lower) } else { Err(Refusal::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_matches_its_types_alone() {
        for (range, matched, other) in [
            ("text/html", "text/html", "text/htmlx"),
            ("text/*", "text/css", "text/event-stream"),
            ("text/*", "text/x", "text/"),
            ("text/event-stream", "text/event-stream", "text/plain"),
            ("application/*+json", "application/problem+json", "application/json"),
            ("application/*+json", "application/a+b+json", "application/+json"),
        ] {
            assert!(range_has(range, matched), "{range} {matched}");
            assert!(!range_has(range, other), "{range} {other}");
        }
    }

    #[test]
    fn a_media_type_is_refused_with_parameters_and_with_stars_elsewhere() {
        assert_eq!(media_range("Text/HTML").unwrap(), "text/html");
        for word in [
            "*/*",
            "*",
            "text",
            "text/",
            "/x",
            "text/html; charset=utf-8",
            "text/x*",
            "te*t/x",
            "text/*x",
            "a/b/c",
        ] {
            assert!(media_range(word).is_err(), "{word}");
        }
    }
}
