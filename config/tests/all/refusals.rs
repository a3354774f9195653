//! Errors and their places, word by word.

mod compress;
mod edge;
mod handlers;
mod keys;
mod routes;
mod sites;

use sluicegate_cc::Registry;
use sluicegate_config::Config;

pub(crate) const LISTENER: &str =
    "[[listener]]\nname = \"a\"\naddress = \"127.0.0.1:4433\"\ntls = \"self-signed\"\n";

/// Returns the error for `text`, without the file's name.
pub(crate) fn refusal(text: &str) -> String {
    let error = Config::from_toml("edge.toml", text, &Registry::builtin())
        .expect_err("the text should be refused")
        .to_string();
    error.strip_prefix("edge.toml:").expect("starts with the file's name").to_owned()
}

/// Returns the error for lines before a valid listener.
pub(crate) fn refusal_before(lines: &str) -> String {
    refusal(&format!("{lines}\n{LISTENER}"))
}

/// Returns the error for lines after a valid listener, so from line 5 on.
pub(crate) fn refusal_after(lines: &str) -> String {
    refusal(&format!("{LISTENER}{lines}"))
}

#[test]
fn valid_listener_alone_is_enough() {
    Config::from_toml("edge.toml", LISTENER, &Registry::builtin()).unwrap();
}

#[test]
fn syntax_errors() {
    assert_eq!(refusal("[server\n"), "1:8: unclosed table; expected `]`");
    assert_eq!(
        refusal("[server]\ndrain_timeout = 30s\n"),
        "2:17: string values must be quoted; expected literal string"
    );
    assert_eq!(
        refusal("[log]\nlevel = \"info\"\nlevel = \"warn\"\n"),
        "3:1: duplicate key; expected each key once, and a [[table]] above the tables inside it"
    );
}

#[test]
fn what_is_missing_is_reported_at_the_header() {
    assert_eq!(
        refusal("[log]\n"),
        "1:1: no listener in the file; expected at least one [[listener]]"
    );
    assert_eq!(
        refusal("\n[[listener]]\nname = \"a\"\naddress = \"[::]:443\"\n"),
        "2:1: [[listener]] has no `tls`; expected a table with `certificate` and `key` or with `acme`, 1 to 256 such tables, or \"self-signed\""
    );
    assert_eq!(
        refusal_after("\n[[listener]]\naddress = \"[::]:443\"\n"),
        "6:1: [[listener]] has no `name`; expected a string of 1 to 64 letters, digits, `-`, `_` or `.`"
    );
    assert_eq!(
        refusal(
            "[[listener]]\nname = \"a\"\naddress = \"[::]:443\"\n[listener.tls]\ncertificate = \"c\"\n"
        ),
        "5:15: `certificate` without `key`; expected `certificate` and `key`, or `acme`"
    );
    assert_eq!(
        refusal_before("[server]\nstate_dir = \"\""),
        "2:13: string \"\" for `state_dir`; expected a path, relative to the folder of this file"
    );
}
#[test]
fn values_that_contradict_each_other() {
    assert_eq!(
        refusal_before("[limits]\nstream_window = \"2MiB\""),
        "2:17: `connection_window` is 1MiB, below `stream_window`, which is 2MiB; expected `connection_window` of at least `stream_window`"
    );
    assert_eq!(
        refusal_before("[qlog]\nmax_total_bytes = \"1MiB\""),
        "2:19: `max_total_bytes` is 1MiB, below `max_trace_bytes`, which is 64MiB; expected `max_total_bytes` of at least `max_trace_bytes`"
    );
    assert_eq!(
        refusal_before("[qlog]\nsample_rate = 0.5"),
        "2:15: `sample_rate` is 0.5 without a `directory`; expected a `directory` for the traces, or 0"
    );
    assert_eq!(
        refusal_before("[limits]\nworker_buffer = \"1MiB\"\nstream_buffer = \"2MiB\""),
        "2:17: `worker_buffer` is 1MiB, below `stream_buffer`, which is 2MiB; expected `worker_buffer` of at least `stream_buffer`"
    );
    assert_eq!(
        refusal_before("[quic]\nsession_tickets = false\nearly_data = true"),
        "3:14: `early_data` is true without `session_tickets`; expected `session_tickets` of true, or `early_data` of false"
    );
}

#[test]
fn words_of_a_file_stay_on_one_short_line() {
    let error = refusal_before(&format!("[log]\n\"{}\\n\" = 1", "ä\\u001b".repeat(1000)));
    assert!(error.len() < 500 && !error.contains(['\n', '\u{1b}']), "{error}");
}
