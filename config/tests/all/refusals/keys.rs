//! Keys and the types of their values.

use crate::refusals::{LISTENER, refusal, refusal_after, refusal_before};

/// Asserts that `text` is refused for an unknown key, with `key` as the nearest.
fn assert_unknown(text: &str, found: &str, key: &str) {
    let error = refusal(text);
    assert_eq!(error.split("; expected one of: ").next(), Some(found));
    assert!(error.ends_with(&format!(" (nearest: {key})")), "{error}");
}

#[test]
fn unknown_keys_in_each_table() {
    for (lines, found, nearest) in [
        ("[sever]", "1:2: unknown table [sever]", "server"),
        ("[server]\ndrain = 1", "2:1: unknown key `drain` in [server]", "drain_timeout"),
        ("[[group]]\n core = 1", "2:2: unknown key `core` in [[group]]", "cores"),
        ("[[listener]]\nadress = 1", "2:1: unknown key `adress` in [[listener]]", "address"),
        ("[limits]\nheader = 1", "2:1: unknown key `header` in [limits]", "header_bytes"),
        ("[quic]\nidle_timout = 1", "2:1: unknown key `idle_timout` in [quic]", "idle_timeout"),
        ("[qlog]\ndir = 1", "2:1: unknown key `dir` in [qlog]", "directory"),
        ("[log]\nlevle = 1", "2:1: unknown key `levle` in [log]", "level"),
        ("[admin]\nadress = 1", "2:1: unknown key `adress` in [admin]", "address"),
        ("[access_log]\nfiles = 1", "2:1: unknown key `files` in [access_log]", "file"),
    ] {
        assert_unknown(&format!("{lines}\n{LISTENER}"), found, nearest);
    }
    assert_eq!(
        refusal_before("[log]\nzzz = 1"),
        "2:1: unknown key `zzz` in [log]; expected one of: level, format"
    );
}

#[test]
fn unknown_keys_in_tables_of_tables() {
    for (keys, found, nearest) in [
        ("paht = \"/\"", "6:1: unknown key `paht` in [[route]]", "path"),
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
        (
            "path = \"/\"\nfiles = { rot = \"/srv\" }",
            "7:11: unknown key `rot` in [route.files]",
            "root",
        ),
        (
            "path = \"/\"\nproxy = { upstream = \"a:1\" }",
            "7:11: unknown key `upstream` in [route.proxy]",
            "upstreams",
        ),
        (
            "path = \"/\"\nredirect = { locaton = \"/\" }",
            "7:14: unknown key `locaton` in [route.redirect]",
            "location",
        ),
        // Words of other servers.
        ("path = \"/\"\nencode = \"gzip\"", "7:1: unknown key `encode` in [[route]]", "compress"),
        (
            "path = \"/\"\nserver_name = \"example.com\"",
            "7:1: unknown key `server_name` in [[route]]",
            "host",
        ),
        ("path = \"/\"\n[gzip]\nlevel = 5", "7:2: unknown table [gzip]", "compress"),
    ] {
        assert_unknown(&format!("{LISTENER}[[route]]\n{keys}"), found, nearest);
    }
    let listener = LISTENER.replace("tls = \"self-signed\"", "tls.certficate = \"c\"");
    let found = "4:5: unknown key `certficate` in [listener.tls]";
    assert_unknown(&listener, found, "certificate");
}

#[test]
fn key_in_the_wrong_table_names_the_right_one() {
    let route = "[[route]]\npath = \"/\"\n[route.proxy]\nupstreams = \"a:1\"\ntimeout = \"1s\"";
    assert_eq!(
        refusal_after(route),
        "9:1: `timeout` belongs to [[route]]; move it above [route.proxy]"
    );
    assert_eq!(
        refusal_before("[limits]\nmigration = true"),
        "2:1: `migration` belongs to [quic]; move it there"
    );
    assert_eq!(refusal("cores = \"auto\"\n"), "1:1: `cores` belongs to [[group]]; move it there");
    assert_eq!(
        refusal_before("[qlog]\nformat = \"json\""),
        "2:1: `format` belongs to [quic.connection_ids] or [log] or [access_log]; move it there"
    );
    // Where a key of the table itself looks like it, that may be meant.
    assert_unknown(
        &format!("[limits]\nidle_timeout = 1\n{LISTENER}"),
        "2:1: unknown key `idle_timeout` in [limits]",
        "handshake_timeout",
    );
}

#[test]
fn unknown_table_is_no_key_of_another_one() {
    assert_eq!(
        refusal_after("[[location]]\npath = \"/\"\n").split("; expected one of: ").next(),
        Some("5:3: unknown table [[location]]")
    );
    assert!(refusal_after("[[location]]\n").ends_with(" (nearest: route)"));
    let error = refusal_after("[acess_log]\nfile = \"a\"");
    assert!(error.starts_with("5:2: unknown table [acess_log]; "), "{error}");
    assert!(error.ends_with(" (nearest: access_log)"), "{error}");
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
    assert_eq!(refusal_before("log = 3"), "1:7: integer 3 for `log`; expected a table [log]");
    assert_eq!(refusal("[listener]\n"), "1:1: a table for `listener`; expected [[listener]]");
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
        "2:16: string \"16mb\" for `header_bytes`; expected a size from \"1KiB\" to \"1MiB\", or a number of bytes \
         (nearest: 16MB)"
    );
    for (given, nearest) in [
        ("10m", " (nearest: 10MiB)"),
        ("10K", " (nearest: 10KiB)"),
        ("10 MiB", " (nearest: 10MiB)"),
        ("10mib", " (nearest: 10MiB)"),
        ("10x", ""),
        ("m", ""),
    ] {
        let error = refusal_before(&format!("[limits]\nheader_bytes = \"{given}\""));
        assert!(error.ends_with(&format!("a number of bytes{nearest}")), "{error}");
    }
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
        "2:19: `max_udp_payload` is 1199B, below 1200B; expected a size from \"1200B\" to \"65527B\", or a number of bytes"
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
        "3:11: `backend` is \"iouring\"; expected one of: auto, mio, io_uring, dpdk (nearest: io_uring)"
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
