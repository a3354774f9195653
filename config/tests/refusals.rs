//! What is wrong in a file is said in these words, at these places.

use sluicegate_cc::Registry;
use sluicegate_config::Config;

const LISTENER: &str =
    "[[listener]]\nname = \"a\"\naddress = \"127.0.0.1:4433\"\ntls = \"self-signed\"\n";

/// The refusal of `text`, without the file's name.
fn refusal(text: &str) -> String {
    let error = Config::from_toml("edge.toml", text, &Registry::builtin())
        .expect_err("the text should be refused")
        .to_string();
    error
        .strip_prefix("edge.toml:")
        .expect("starts with the file's name")
        .to_owned()
}

/// The refusal of lines that stand before a valid listener.
fn refusal_before(lines: &str) -> String {
    refusal(&format!("{lines}\n{LISTENER}"))
}

/// The refusal of lines that follow a valid listener, so from line 5 on.
fn refusal_after(lines: &str) -> String {
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
        "3:1: duplicate key; expected TOML"
    );
}

/// `text` is refused for an unknown key, with `key` as the nearest.
fn assert_unknown(text: &str, found: &str, key: &str) {
    let error = refusal(text);
    assert_eq!(error.split("; expected one of: ").next(), Some(found));
    assert!(error.ends_with(&format!(" (nearest: {key})")), "{error}");
}

#[test]
fn unknown_keys_in_each_table() {
    for (lines, found, nearest) in [
        (
            "[sever]",
            "1:2: unknown key `sever` at the top level",
            "server",
        ),
        (
            "[server]\ndrain = 1",
            "2:1: unknown key `drain` in [server]",
            "drain_timeout",
        ),
        (
            "[[group]]\n core = 1",
            "2:2: unknown key `core` in [[group]]",
            "cores",
        ),
        (
            "[[listener]]\nadress = 1",
            "2:1: unknown key `adress` in [[listener]]",
            "address",
        ),
        (
            "[limits]\nheader = 1",
            "2:1: unknown key `header` in [limits]",
            "header_bytes",
        ),
        (
            "[quic]\nidle_timout = 1",
            "2:1: unknown key `idle_timout` in [quic]",
            "idle_timeout",
        ),
        (
            "[qlog]\ndir = 1",
            "2:1: unknown key `dir` in [qlog]",
            "directory",
        ),
        (
            "[log]\nlevle = 1",
            "2:1: unknown key `levle` in [log]",
            "level",
        ),
    ] {
        assert_unknown(&format!("{lines}\n{LISTENER}"), found, nearest);
    }
    for (keys, found, nearest) in [
        (
            "paht = \"/\"",
            "6:1: unknown key `paht` in [[route]]",
            "path",
        ),
        (
            "path = \"/\"\nfixed = { stats = 1 }",
            "7:11: unknown key `stats` in [route.fixed]",
            "status",
        ),
        (
            "path = \"/\"\ngenerate = { maxsize = 1 }",
            "7:14: unknown key `maxsize` in [route.generate]",
            "max_size",
        ),
    ] {
        assert_unknown(&format!("{LISTENER}[[route]]\n{keys}"), found, nearest);
    }
    let listener = LISTENER.replace("tls = \"self-signed\"", "tls.certficate = \"c\"");
    let found = "4:5: unknown key `certficate` in [listener.tls]";
    assert_unknown(&listener, found, "certificate");
    assert_eq!(
        refusal_before("[log]\nzzz = 1"),
        "2:1: unknown key `zzz` in [log]; expected one of: level, format"
    );
}

#[test]
fn wrong_types() {
    assert_eq!(
        refusal_before("[server]\ndrain_timeout = 30"),
        "2:17: integer 30 for `drain_timeout`; expected a duration from \"0s\" to \"1h\""
    );
    assert_eq!(
        refusal_before("[quic]\nmigration = \"yes\""),
        "2:13: string \"yes\" for `migration`; expected true or false"
    );
    assert_eq!(
        refusal_before("[limits]\nmax_concurrent_streams = 1.5"),
        "2:26: float 1.5 for `max_concurrent_streams`; expected a number of requests from 1 to 65536"
    );
    assert_eq!(
        refusal_before("[qlog]\nsample_rate = nan"),
        "2:15: float nan for `sample_rate`; expected a number from 0.0 to 1.0"
    );
    assert_eq!(
        refusal_before("log = 3"),
        "1:7: integer 3 for `log`; expected a table [log]"
    );
    assert_eq!(
        refusal("[listener]\n"),
        "1:1: a table for `listener`; expected [[listener]]"
    );
    assert_eq!(
        refusal("listener = [\"a\"]\n"),
        "1:13: string \"a\" for `listener`; expected a table [[listener]]"
    );
    assert_eq!(
        refusal_before("[[group]]\nname = \"default\"\nrx_buffers = true"),
        "3:14: boolean true for `rx_buffers`; expected a whole number from 4 to 4096"
    );
}

#[test]
fn bad_durations_and_sizes() {
    assert_eq!(
        refusal_before("[quic]\nidle_timeout = \"30 s\""),
        "2:16: string \"30 s\" for `idle_timeout`; expected a duration from \"1s\" to \"10m\""
    );
    assert_eq!(
        refusal_before("[limits]\nheader_bytes = \"16mb\""),
        "2:16: string \"16mb\" for `header_bytes`; expected a size from \"1KiB\" to \"1MiB\", or a number of bytes"
    );
    assert_eq!(
        refusal_before("[limits]\nheader_bytes = -1"),
        "2:16: integer -1 for `header_bytes`; expected a size from \"1KiB\" to \"1MiB\", or a number of bytes"
    );
}

#[test]
fn fractions_of_a_microsecond_are_not_dropped() {
    assert_eq!(
        refusal_before("[[group]]\nname = \"default\"\nbusy_poll = \"1500ns\""),
        "3:13: `busy_poll` is 1us500ns; expected whole microseconds"
    );
}

#[test]
fn values_out_of_bounds_name_the_bound() {
    assert_eq!(
        refusal_before("[quic]\nidle_timeout = \"11m\""),
        "2:16: `idle_timeout` is 11m, above 10m; expected a duration from \"1s\" to \"10m\""
    );
    assert_eq!(
        refusal_before("[quic]\nmax_udp_payload = 1199"),
        "2:19: `max_udp_payload` is 1199B, below 1200B; expected a size from \"1200B\" to \"1472B\", or a number of bytes"
    );
    assert_eq!(
        refusal_before("[limits]\ncids_per_connection = 1"),
        "2:23: `cids_per_connection` is 1, below 2; expected a number of connection IDs from 2 to 16"
    );
    assert_eq!(
        refusal_before("[qlog]\nsample_rate = 1.5"),
        "2:15: `sample_rate` is 1.5, above 1.0; expected a number from 0.0 to 1.0"
    );
    assert_eq!(
        refusal_after("[[route]]\npath = \"/\"\nfixed = { status = 99 }"),
        "7:20: `status` is 99, below 200; expected a whole number from 200 to 599"
    );
}

#[test]
fn unknown_words() {
    assert_eq!(
        refusal_before("[[group]]\nname = \"g\"\nbackend = \"iouring\""),
        "3:11: `backend` is \"iouring\"; expected one of: auto, mio, io_uring (nearest: io_uring)"
    );
    assert_eq!(
        refusal_before("[log]\nlevel = \"warning\""),
        "2:9: `level` is \"warning\"; expected one of: error, warn, info, debug, trace (nearest: warn)"
    );
    assert_eq!(
        refusal_before("[quic]\nretry_above = \"always\""),
        "2:15: string \"always\" for `retry_above`; expected a number of handshakes from 0 to 1000000, or \"never\""
    );
}

#[test]
fn congestion_control_is_checked_against_the_registry() {
    let registry = Registry::builtin();
    let names = registry.names().collect::<Vec<_>>().join(", ");
    let expected = |place: &str, word: &str, near: &str| {
        format!(
            "{place}: unknown congestion control algorithm \"{word}\"; expected one of: {names}{near}"
        )
    };
    assert_eq!(
        refusal_after("congestion_control = \"qubic\""),
        expected("5:22", "qubic", " (nearest: cubic)")
    );
    assert_eq!(
        refusal_after("congestion_control = { algorithm = \"zzzz\" }"),
        expected("5:36", "zzzz", "")
    );
    assert_eq!(
        refusal_after("congestion_control = { hystart = true }"),
        format!("5:22: `congestion_control` has no `algorithm`; expected one of: {names}")
    );
    let cubic = registry.find("cubic").unwrap();
    let options = cubic
        .options
        .iter()
        .map(|o| o.name)
        .collect::<Vec<_>>()
        .join(", ");
    assert_eq!(
        refusal_after("congestion_control = { algorithm = \"cubic\", histart = true }"),
        format!(
            "5:45: unknown key `histart` for algorithm \"cubic\"; expected one of: algorithm, {options} (nearest: hystart)"
        )
    );
    assert_eq!(
        refusal_after("[listener.congestion_control]\nalgorithm = \"cubic\"\nhystart = 1"),
        "7:11: integer 1 for `hystart`; expected true or false"
    );
    assert_eq!(
        refusal_after("congestion_control = { algorithm = \"cubic\", beta = 2 }"),
        "5:52: integer 2 for `beta`; expected a number from 0.3 to 0.95"
    );
    assert_eq!(
        refusal_after("congestion_control = 1"),
        "5:22: integer 1 for `congestion_control`; expected an algorithm's name, or a table with `algorithm` and its options"
    );
}

#[test]
fn cores_are_a_list_without_repetition() {
    let refusal = |cores: &str| {
        let error = refusal_before(&format!("[[group]]\nname = \"default\"\ncores = {cores}"));
        error.split("; expected").next().unwrap().to_owned()
    };
    assert_eq!(refusal("\"0-x\""), "3:9: string \"0-x\" for `cores`");
    assert_eq!(refusal("\"3-1\""), "3:9: string \"3-1\" for `cores`");
    assert_eq!(
        refusal("\"0-99999999\""),
        "3:9: string \"0-99999999\" for `cores`"
    );
    assert_eq!(refusal("\"+1\""), "3:9: string \"+1\" for `cores`");
    assert_eq!(refusal("[]"), "3:9: an array for `cores`");
    assert_eq!(refusal("[4096]"), "3:9: an array for `cores`");
    assert_eq!(refusal("\"0-3,2\""), "3:9: core 2 twice in `cores`");
    assert_eq!(refusal("[1, 1]"), "3:9: core 1 twice in `cores`");
}

#[test]
fn references_and_names() {
    assert_eq!(
        refusal(
            "[[group]]\nname = \"edge\"\n[[listener]]\nname = \"a\"\naddress = \"[::]:443\"\ngroup = \"edgy\"\n"
        ),
        "6:9: no [[group]] is named \"edgy\"; expected one of: edge (nearest: edge)"
    );
    assert_eq!(
        refusal_before("[[group]]\nname = \"default\"\n[[group]]\nname = \"default\""),
        "4:8: group \"default\" again, first on line 2; expected a name of its own"
    );
    let second = LISTENER.replace("4433", "4434");
    assert_eq!(
        refusal_after(&second),
        "6:8: listener \"a\" again, first on line 2; expected a name of its own"
    );
    let second = LISTENER.replace("\"a\"", "\"b\"");
    assert_eq!(
        refusal_after(&second),
        "7:11: address 127.0.0.1:4433 again, first on line 3; expected an address that is served once"
    );
    assert_eq!(
        refusal(&LISTENER.replace("\"127.0.0.1:4433\"", "[\"[::1]:1\", \"[::1]:1\"]")),
        "3:23: address [::1]:1 again, first on line 3; expected an address that is served once"
    );
    assert_eq!(
        refusal(&LISTENER.replace("\"a\"", "\"a b\"")),
        "2:8: string \"a b\" for `name`; expected a string of 1 to 64 letters, digits, `-`, `_` or `.`"
    );
}

#[test]
fn addresses_are_literal() {
    for word in [
        "example.org:443",
        "127.0.0.1",
        "localhost:",
        "localhost:+1",
        "localhost:65536",
        ":443",
    ] {
        let error = refusal(&LISTENER.replace("127.0.0.1:4433", word));
        assert_eq!(
            error,
            format!(
                "3:11: string \"{word}\" for `address`; expected an address with a port, such as \"0.0.0.0:443\", \
                 \"[::]:443\" or \"localhost:4433\", or a list of 1 to 64 of them"
            )
        );
    }
}

#[test]
fn what_is_missing_is_reported_at_the_header() {
    assert_eq!(
        refusal("[log]\n"),
        "1:1: no listener in the file; expected at least one [[listener]]"
    );
    assert_eq!(
        refusal("\n[[listener]]\nname = \"a\"\naddress = \"[::]:443\"\n"),
        "2:1: [[listener]] has no `tls`; expected a table with `certificate` and `key`, or \"self-signed\""
    );
    assert_eq!(
        refusal_after("\n[[listener]]\naddress = \"[::]:443\"\n"),
        "6:1: [[listener]] has no `name`; expected a string of 1 to 64 letters, digits, `-`, `_` or `.`"
    );
    assert_eq!(
        refusal(
            "[[listener]]\nname = \"a\"\naddress = \"[::]:443\"\n[listener.tls]\ncertificate = \"c\"\n"
        ),
        "4:1: [listener.tls] has no `key`; expected a path, relative to the folder of this file"
    );
    assert_eq!(
        refusal_before("[server]\nstate_dir = \"\""),
        "2:13: string \"\" for `state_dir`; expected a path, relative to the folder of this file"
    );
}

#[test]
fn routes_have_one_handler_and_a_path() {
    assert_eq!(
        refusal_after("[[route]]\npath = \"/\"\nfixed = {}\ngenerate = {}"),
        "8:12: both `fixed` and `generate` in [[route]]; expected exactly one of: fixed, generate"
    );
    assert_eq!(
        refusal_after("[[route]]\npath = \"/\""),
        "5:1: neither `fixed` nor `generate` in [[route]]; expected exactly one of: fixed, generate"
    );
    let path_words = "expected a path prefix that starts with \"/\", of up to 1024 visible ASCII characters without ? and #";
    for path in ["", "bytes/", "/a b", "/a?b", "/ä"] {
        assert_eq!(
            refusal_after(&format!("[[route]]\npath = \"{path}\"\ngenerate = {{}}")),
            format!("6:8: string \"{path}\" for `path`; {path_words}")
        );
    }
    assert_eq!(
        refusal_after(
            "[[route]]\npath = \"/\"\ngenerate = {}\n[[route]]\npath = \"/\"\nfixed = {}"
        ),
        "9:8: path \"/\" again, first on line 6; expected a path of its own"
    );
    let fixed =
        |keys: &str| refusal_after(&format!("[[route]]\npath = \"/\"\n[route.fixed]\n{keys}"));
    assert_eq!(
        fixed("body = \"a\"\nbody_file = \"b\""),
        "9:13: both `body` and `body_file` in [route.fixed]; expected at most one of: body, body_file"
    );
    assert_eq!(
        fixed("status = 204\nbody = \"a\""),
        "9:8: `body` with status 204; expected no body for 204, 205 and 304"
    );
    assert_eq!(
        fixed("content_type = \"a\\r\\nb: c\""),
        "8:16: string \"a\\r\\nb: c\" for `content_type`; expected a string of 1 to 256 visible ASCII characters and inner spaces"
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
}

#[test]
fn words_of_a_file_stay_on_one_short_line() {
    let error = refusal_before(&format!("[log]\n\"{}\\n\" = 1", "ä\\u001b".repeat(1000)));
    assert!(
        error.len() < 500 && !error.contains(['\n', '\u{1b}']),
        "{error}"
    );
}

#[test]
fn rules_of_a_listener() {
    let rule = |lines: &str| refusal_after(&format!("[[listener.congestion_rule]]\n{lines}\n"));
    let start = "5:1: [[listener.congestion_rule]] has no `congestion_control`";
    assert!(rule("share = 0.5").starts_with(start));
    assert_eq!(
        rule("congestion_control = \"reno\"\nnetworks = [\"10.0.0.1/8\"]"),
        "7:13: network 10.0.0.1/8, whose address has bits beyond the prefix; expected 10.0.0.0/8, or a longer prefix"
    );
    assert!(
        rule("congestion_control = \"reno\"\nnetworks = [\"::/0\", \"10.0.0.0/33\"]").starts_with(
            "7:21: string \"10.0.0.0/33\" for `networks`; expected \"all\", a network"
        )
    );
    assert!(
        rule("congestion_control = \"reno\"\nnetworks = []")
            .starts_with("7:12: an array for `networks`")
    );
    assert!(rule("congestion_control = \"ren\"").ends_with("(nearest: reno)"));
}
