//! What tests need of a host, and which of it the environment requires to be there.
//!
//! A test that cannot run calls [`skip`]. `SLUICEGATE_REQUIRE`, a list with commas, turns that into a failure for the names that
//! it holds, so that a run that must cover everything cannot pass with tests left out.

use std::fmt::Display;

const VARIABLE: &str = "SLUICEGATE_REQUIRE";

/// Everything that a test may miss on a host.
const NAMES: [&str; 16] = [
    "io_uring",
    "namespace",
    "aioquic",
    "chromium",
    "ptrace",
    "dpdk",
    "curl",
    "h2load",
    "grpc",
    "pebble",
    "h2spec",
    "quic-go",
    "nginx",
    "go",
    "prometheus",
    "envoy",
];

/// Reports that a test cannot run on this host, for want of `missing`.
///
/// # Panics
/// The environment requires it, or requires something that no test knows.
pub fn skip(missing: &str, cause: &dyn Display) {
    assert!(NAMES.contains(&missing), "{missing} has no name here");
    let required = from_environment().unwrap_or_else(|unknown| panic!("{unknown}"));
    let is_required = required.iter().any(|name| name == missing);
    assert!(!is_required, "{missing} is required: {cause}");
    println!("skipped without {missing}: {cause}");
}

#[expect(clippy::disallowed_methods, reason = "the test runner is configured by the environment")]
fn from_environment() -> Result<Vec<String>, String> {
    read(&std::env::var(VARIABLE).unwrap_or_default())
}

/// Reads a list of required names.
///
/// # Errors
/// Names a word that is none of [`NAMES`]: misspelt, it would require nothing.
fn read(list: &str) -> Result<Vec<String>, String> {
    let words = list.split(',').map(str::trim);
    let mut required = Vec::new();
    for word in words.filter(|word| !word.is_empty()) {
        if !NAMES.contains(&word) {
            return Err(format!("{VARIABLE} holds `{word}`; it may hold {}", NAMES.join(", ")));
        }
        required.push(word.to_owned());
    }
    Ok(required)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_any_of_the_known_names() {
        assert_eq!(read(""), Ok(Vec::new()));
        assert_eq!(read("io_uring, ptrace,"), Ok(vec!["io_uring".to_owned(), "ptrace".to_owned()]));
        assert_eq!(read(&NAMES.join(",")).unwrap(), NAMES);
    }

    #[test]
    fn an_unknown_word_is_refused_by_name() {
        let refused = read("io_uring,aioquik").unwrap_err();
        assert!(refused.contains("`aioquik`"), "{refused}");
        assert!(refused.contains("aioquic"), "{refused}");
    }

    #[test]
    fn the_environment_requires_nothing_unknown() {
        assert!(from_environment().is_ok(), "{:?}", from_environment());
    }
}
