//! Compression of responses.

use crate::refusals::{refusal_after, refusal_before};

#[test]
fn a_route_is_compressed_or_not() {
    for (value, found) in [
        ("[\"gzip\"]", "an array"),
        ("\"on\"", "string \"on\""),
        ("{ algorithms = \"gzip\" }", "a table"),
    ] {
        let route = format!("[[route]]\npath = \"/\"\ncompress = {value}\ngenerate = {{}}");
        assert_eq!(
            refusal_after(&route),
            format!(
                "7:12: {found} for `compress`; expected true or false; the table [compress] has the settings"
            )
        );
    }
}

#[test]
fn algorithms_are_known_by_their_names_in_fields() {
    let algorithms = |value: &str| refusal_before(&format!("[compress]\nalgorithms = {value}"));
    for (word, nearest) in [("brotli", "br"), ("GZIP", "gzip"), ("zstandard", "zstd")] {
        assert_eq!(
            algorithms(&format!("\"{word}\"")),
            format!(
                "2:14: \"{word}\" for `algorithms`; expected \"zstd\", \"br\" or \"gzip\" (nearest: {nearest})"
            )
        );
    }
    let words = "expected \"zstd\", \"br\" or \"gzip\", or a list of 1 to 3 of them";
    for (value, found) in [("\"lz4\"", "string \"lz4\""), ("[]", "an array")] {
        assert_eq!(algorithms(value), format!("2:14: {found} for `algorithms`; {words}"));
    }
}

#[test]
fn media_types_have_no_parameters() {
    for word in ["*", "*/*", "text/html; charset=utf-8", "text/x*", "text"] {
        assert_eq!(
            refusal_before(&format!("[compress]\ntypes = \"{word}\"")),
            format!(
                "2:9: string \"{word}\" for `types`; expected a media type such as \"application/json\", \"text/*\" or \
                 \"application/*+json\", without parameters, or a list of 1 to 64 of them"
            )
        );
    }
}
