//! Media types by the suffix of a file's name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use http::HeaderValue;

use crate::representation::visible;

/// Type of a file that nobody knows, which a browser saves.
const UNKNOWN: &str = "application/octet-stream";

/// Suffixes for which `mime_guess` has no type, or an older one than IANA's registry has.
const REGISTERED: &[(&str, &str)] = &[
    ("cjs", "text/javascript"),
    ("ico", "image/vnd.microsoft.icon"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("mjs", "text/javascript"),
    ("mkv", "video/matroska"),
    ("otf", "font/otf"),
    ("ts", "video/mp2t"),
    ("woff", "font/woff"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zst", "application/zstd"),
];

/// Returns the `content-type` for the suffix of a path: `own` or else the known one, with UTF-8 for text. XML names its
/// encoding itself, which a `charset` would override (RFC 7303 §3).
pub(crate) fn content_type(path: &[u8], own: &[(String, String)]) -> HeaderValue {
    let suffix = Path::new(OsStr::from_bytes(path)).extension();
    let suffix = suffix.and_then(OsStr::to_str).unwrap_or_default();
    let suffix = suffix.to_ascii_lowercase();
    let own = own.iter().find(|(of, _)| *of == suffix);
    let own = own.and_then(|(_, kind)| HeaderValue::try_from(kind).ok());
    own.unwrap_or_else(|| {
        let registered = REGISTERED.iter().find(|(of, _)| *of == suffix);
        let registered = registered.map(|(_, kind)| *kind);
        let known = registered.or_else(|| mime_guess::from_ext(&suffix).first_raw());
        match known.unwrap_or(UNKNOWN) {
            xml @ "text/xml" => HeaderValue::from_static(xml),
            text if text.starts_with("text/") => visible(format!("{text}; charset=utf-8")),
            other => HeaderValue::from_static(other),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::files;
    use super::*;

    const TYPES: &[(&str, &str)] = &[
        ("3gp", "video/3gpp"),
        ("7z", "application/x-7z-compressed"),
        ("aac", "audio/aac"),
        ("apk", "application/vnd.android.package-archive"),
        ("apng", "image/apng"),
        ("atom", "application/atom+xml"),
        ("avi", "video/x-msvideo"),
        ("avif", "image/avif"),
        ("bmp", "image/bmp"),
        ("bz2", "application/x-bzip2"),
        ("cjs", "text/javascript; charset=utf-8"),
        ("conf", "text/plain; charset=utf-8"),
        ("css", "text/css; charset=utf-8"),
        ("csv", "text/csv; charset=utf-8"),
        ("doc", "application/msword"),
        ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("eot", "application/vnd.ms-fontobject"),
        ("epub", "application/epub+zip"),
        ("flac", "audio/flac"),
        ("geojson", "application/geo+json"),
        ("gif", "image/gif"),
        ("glb", "model/gltf-binary"),
        ("gltf", "model/gltf+json"),
        ("gz", "application/gzip"),
        ("heic", "image/heic"),
        ("heif", "image/heif"),
        ("htm", "text/html; charset=utf-8"),
        ("html", "text/html; charset=utf-8"),
        ("ico", "image/vnd.microsoft.icon"),
        ("ics", "text/calendar; charset=utf-8"),
        ("jar", "application/java-archive"),
        ("jpeg", "image/jpeg"),
        ("jpg", "image/jpeg"),
        ("js", "text/javascript; charset=utf-8"),
        ("json", "application/json"),
        ("jsonld", "application/ld+json"),
        ("jxl", "image/jxl"),
        ("log", "text/plain; charset=utf-8"),
        ("m3u8", "application/vnd.apple.mpegurl"),
        ("m4a", "audio/mp4"),
        ("m4s", "video/iso.segment"),
        ("m4v", "video/mp4"),
        ("map", "application/json"),
        ("md", "text/markdown; charset=utf-8"),
        ("mjs", "text/javascript; charset=utf-8"),
        ("mkv", "video/matroska"),
        ("mov", "video/quicktime"),
        ("mp3", "audio/mpeg"),
        ("mp4", "video/mp4"),
        ("mpd", "application/dash+xml"),
        ("mpeg", "video/mpeg"),
        ("oga", "audio/ogg"),
        ("ogg", "audio/ogg"),
        ("ogv", "video/ogg"),
        ("opus", "audio/ogg"),
        ("otf", "font/otf"),
        ("pdf", "application/pdf"),
        ("png", "image/png"),
        ("ppt", "application/vnd.ms-powerpoint"),
        ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
        ("ps", "application/postscript"),
        ("rss", "application/rss+xml"),
        ("rtf", "application/rtf"),
        ("svg", "image/svg+xml"),
        ("tar", "application/x-tar"),
        ("tif", "image/tiff"),
        ("tiff", "image/tiff"),
        ("ts", "video/mp2t"),
        ("ttf", "font/ttf"),
        ("txt", "text/plain; charset=utf-8"),
        ("vtt", "text/vtt; charset=utf-8"),
        ("wasm", "application/wasm"),
        ("wav", "audio/wav"),
        ("weba", "audio/webm"),
        ("webm", "video/webm"),
        ("webmanifest", "application/manifest+json"),
        ("webp", "image/webp"),
        ("woff", "font/woff"),
        ("woff2", "font/woff2"),
        ("wsdl", "text/xml"),
        ("xhtml", "application/xhtml+xml"),
        ("xls", "application/vnd.ms-excel"),
        ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("xml", "application/xml"),
        ("xsl", "text/xml"),
        ("xz", "application/x-xz"),
        ("yaml", "application/yaml"),
        ("yml", "application/yaml"),
        ("zip", "application/zip"),
        ("zst", "application/zstd"),
    ];

    fn kind(name: &str) -> HeaderValue {
        content_type(name.as_bytes(), &[])
    }

    #[test]
    fn a_suffix_has_its_registered_type_and_text_is_utf_8() {
        for (suffix, expected) in TYPES {
            let name = format!("some.dir/a.b.{suffix}");
            assert_eq!(kind(&name), expected, "{suffix}");
            assert_eq!(kind(&name.to_uppercase()), expected, "{suffix}");
        }
    }

    #[test]
    fn a_name_without_a_known_suffix_is_bytes() {
        for name in ["", "a", "html", "a.html/b", "a.", "a.htmlx", "a.html ", "a.\u{fc}"] {
            assert_eq!(kind(name), UNKNOWN, "{name}");
        }
    }

    #[test]
    fn the_operator_overrides_a_type() {
        let mut files = files(true);
        let own = [("html", "text/html"), ("new", "application/x-new")];
        files.mime_types = own.map(|(of, kind)| (of.to_owned(), kind.to_owned())).into();
        let kind = |name: &[u8]| content_type(name, &files.mime_types);
        assert_eq!(kind(b"a.HTML"), "text/html");
        assert_eq!(kind(b"a.new"), "application/x-new");
        assert_eq!(kind(b"a.css"), "text/css; charset=utf-8");
    }
}
