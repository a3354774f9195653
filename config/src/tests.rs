//! What holds for every key of the schema, and between schema, printer and manual.

use std::time::Duration;

use sluicegate_cc::Registry;

use crate::model::{Body, Config, Cores, Handler};
use crate::schema::{Given, Key, Kind, TABLES, Table, toml_duration};
use crate::{Backend, manual};

const EXAMPLE: &str = include_str!("../example.toml");

/// Keys of a route of which exactly one is given.
const HANDLERS: [&str; 5] = ["fixed", "generate", "files", "proxy", "redirect"];

fn parse(text: &str) -> Result<Config, crate::Error> {
    Config::from_toml("edge.toml", text, &Registry::builtin())
}

/// A valid file in which `key` of `table` has the TOML value `value`.
fn document(table: &Table, key: &str, value: &str) -> String {
    let mut keys = vec![format!("{key} = {value}")];
    for other in table.keys().filter(|k| k.name != key) {
        match (table.name, other.name, other.given) {
            ("listener", "tls", _) => keys.push("tls = \"self-signed\"".to_owned()),
            ("route", "generate", _) if !HANDLERS.contains(&key) => {
                keys.push("generate = {}".to_owned());
            }
            (_, name, Given::Required(example)) => keys.push(format!("{name} = {example}")),
            _ => {}
        }
    }
    // A file of its own for traces, and an upper size that no other test reaches.
    match (table.name, key) {
        ("qlog", "sample_rate") => keys.push("directory = \"traces\"".to_owned()),
        ("qlog", "max_trace_bytes") => keys.push("max_total_bytes = \"64TiB\"".to_owned()),
        ("qlog", "max_total_bytes") => keys.push("max_trace_bytes = \"64KiB\"".to_owned()),
        ("limits", "connection_window") => keys.push("stream_window = \"16KiB\"".to_owned()),
        ("limits", "worker_buffer") => keys.push("stream_buffer = \"32KiB\"".to_owned()),
        ("limits", "stream_window") => keys.push("connection_window = \"1GiB\"".to_owned()),
        _ => {}
    }
    let group = "[[group]]\nname = \"default\"\n[[group]]\nname = \"other\"\n";
    let listener = "[[listener]]\nname = \"l\"\naddress = \"[::]:1\"\n";
    let before = match table.name {
        "listener" => group.to_owned(),
        "listener.tls" => listener.to_owned(),
        "listener.congestion_rule" => format!("{listener}tls = \"self-signed\"\n"),
        "route.request_headers" | "route.response_headers" => {
            format!("{listener}tls = \"self-signed\"\n[[route]]\npath = \"/\"\ngenerate = {{}}\n")
        }
        name if name.starts_with("route.") => {
            format!("{listener}tls = \"self-signed\"\n[[route]]\npath = \"/\"\n")
        }
        _ => format!("{listener}tls = \"self-signed\"\ngroup = \"g\"\n"),
    };
    // Where another group is described, the listener refers to that one.
    let before = match (table.name, key) {
        ("group", "name") => before.replace("\"g\"", value),
        ("group", _) => before.replace("\"g\"", "\"default\""),
        _ => before.replace("group = \"g\"\n", ""),
    };
    format!("{before}{}\n{}\n", table.header(), keys.join("\n"))
}

fn each_key(check: impl Fn(&Table, Key)) {
    TABLES
        .iter()
        .for_each(|table| table.keys().for_each(|key| check(table, key)));
}

#[test]
fn every_default_and_example_is_accepted() {
    each_key(|table, key| {
        let required = match key.given {
            Given::Required(example) => Some(example.to_owned()),
            _ => None,
        };
        let default = key.given.default_toml().map(Into::into);
        let examples = key.examples.iter().map(ToString::to_string);
        for value in examples.chain(required).chain(default) {
            let text = document(table, key.name, &value);
            assert_eq!(
                parse(&text).err(),
                None,
                "{}.{}\n{text}",
                table.name,
                key.name
            );
        }
    });
}

#[test]
fn every_key_refuses_a_date_and_says_what_it_takes() {
    each_key(|table, key| {
        let text = document(table, key.name, "1979-05-27");
        let error = parse(&text).unwrap_err();
        assert_eq!(
            error.found,
            format!("datetime 1979-05-27 for `{}`", full_name(table, &key))
        );
        let dates = text
            .lines()
            .zip(1..)
            .filter(|(l, _)| l.ends_with("1979-05-27"));
        let (_, line) = dates.last().unwrap();
        assert_eq!(error.position.unwrap().line, line);
    });
}

/// Tables call themselves by their full name.
fn full_name(table: &Table, key: &Key) -> String {
    let full = format!("{}.{}", table.name, key.name);
    let of_its_own = TABLES.iter().any(|t| t.name == full) && full != "listener.tls";
    if of_its_own {
        full
    } else {
        key.name.to_owned()
    }
}

#[test]
fn every_bound_is_inclusive_and_nothing_beyond_it_is_taken() {
    each_key(|table, key| {
        let (inside, below, above): ([String; 2], Option<String>, String) = match key.kind {
            Kind::Count { min, max, .. }
            | Kind::CountOrNever { min, max, .. }
            | Kind::Size { min, max } => (
                [min.to_string(), max.to_string()],
                min.checked_sub(1).map(|v| v.to_string()),
                (max + 1).to_string(),
            ),
            Kind::Duration { min, max } => {
                let ns = Duration::from_nanos(1);
                (
                    [min, max].map(toml_duration),
                    min.checked_sub(ns).map(toml_duration),
                    toml_duration(max + ns),
                )
            }
            Kind::Ratio { min, max } => (
                [min, max].map(|v| format!("{v:?}")),
                Some(format!("{:?}", min - 0.001)),
                format!("{:?}", max + 0.001),
            ),
            _ => return,
        };
        for value in inside {
            let error = parse(&document(table, key.name, &value)).err();
            assert_eq!(error, None, "{}.{} = {value}", table.name, key.name);
        }
        for (value, side) in below
            .map(|v| (v, ", below "))
            .into_iter()
            .chain([(above, ", above ")])
        {
            let error = parse(&document(table, key.name, &value)).unwrap_err();
            assert!(error.found.contains(side), "{error}");
        }
    });
}

#[test]
fn every_text_refuses_what_is_too_long() {
    each_key(|table, key| {
        let (Kind::Text { max } | Kind::Name { max } | Kind::FieldValue { max }) = key.kind else {
            return;
        };
        let quoted = |len: usize| format!("\"{}\"", "a".repeat(len));
        let error = parse(&document(table, key.name, &quoted(max + 1))).unwrap_err();
        assert_eq!(error.expected, key.kind.expectation(), "{error}");
        if key.name != "group" {
            assert_eq!(parse(&document(table, key.name, &quoted(max))).err(), None);
        }
    });
}

#[test]
fn example_is_the_manual_of_this_build() {
    assert!(
        EXAMPLE == manual(&Registry::builtin()),
        "config/example.toml is not up to date: see config/README.md for the command"
    );
}

#[test]
fn example_names_every_key_and_every_option() {
    each_key(|table, key| {
        let start = EXAMPLE
            .find(&format!("\n{}\n", table.header()))
            .or_else(|| EXAMPLE.find(&format!("\n# e.g. {}\n", table.header())))
            .expect("a header");
        let section = &EXAMPLE[start..];
        let needle = format!("{} = ", key.name);
        let own = format!("[{}.{}]", table.name, key.name);
        assert!(
            section.contains(&needle) || section.contains(&own),
            "{}",
            key.name
        );
    });
    for algorithm in &Registry::builtin() {
        let start = EXAMPLE
            .find(&format!("algorithm = \"{}\"", algorithm.name))
            .unwrap();
        let line = EXAMPLE[start..].lines().next().unwrap();
        for option in algorithm.options {
            assert!(
                line.contains(&format!(", {} = ", option.name)),
                "{}",
                option.name
            );
        }
    }
}

#[test]
fn defaults_in_the_example_are_the_defaults() {
    let with_defaults_given: String = EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(key) if key.starts_with(|c: char| c.is_ascii_alphabetic()) => format!("{key}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let given = with_defaults_given.matches("\n").count();
    assert_eq!(given, EXAMPLE.matches("\n").count());
    assert_ne!(with_defaults_given, EXAMPLE);
    assert_eq!(parse(&with_defaults_given), parse(EXAMPLE));
    assert_eq!(parse(EXAMPLE).err(), None);
    let options = EXAMPLE
        .lines()
        .filter_map(|l| l.strip_prefix("# e.g. congestion_control = "));
    for (value, algorithm) in options.zip(&Registry::builtin()) {
        let listener = TABLES.iter().find(|t| t.name == "listener").unwrap();
        let config = parse(&document(listener, "congestion_control", value)).unwrap();
        assert_eq!(
            config.listeners[0].congestion_control.options,
            algorithm.defaults()
        );
    }
}

#[test]
fn lines_of_the_manual_are_short_but_for_values() {
    let long = |line: &&str| line.chars().count() > 100 && !line.starts_with("# e.g. ");
    assert_eq!(EXAMPLE.lines().find(long), None);
}

/// A file in which nothing is as in the default.
const UNUSUAL: &str = r#"
[server]
state_dir = "state"
secrets_file = "/etc/se\"cret"
drain_timeout = "1m1ms"
[[group]]
name = "a"
backend = "mio"
cores = "0-2,7"
receive_buffer = 1000000
gso = false
busy_poll = "50us"
[[group]]
name = "b"
cores = [5]
[[listener]]
name = "one"
address = ["0.0.0.0:443", "[fe80::1%3]:443"]
group = "a"
congestion_control = { algorithm = "cubic", beta = 0.5, hystart = false }
low_rtt_guard = "500us"
tls = { certificate = "c.pem", key = "../k.pem" }
[[listener.congestion_rule]]
networks = ["10.0.0.0/8", "fd00::/8", "192.0.2.1"]
congestion_control = "reno"
[[listener.congestion_rule]]
share = 0.25
congestion_control = { algorithm = "reno", beta = 0.8 }
[[listener]]
name = "two"
address = "localhost:0"
group = "b"
congestion_control = "reno"
tls = "self-signed"
[[route]]
path = "/"
fixed = { status = 404, content_type = "text/html", body = "a\n\t\"'''\\ \u0000 \u007f ä\r\n" }
[[route]]
path = "/file"
fixed = { body_file = "page.html" }
[[route]]
path = "/b/"
generate = { max_size = "10MB" }
[limits]
connections_per_worker = 0x10
[quic]
retry_above = "never"
migration = false
[qlog]
sample_rate = 1e-7
directory = "traces"
level = "extra"
[log]
level = "trace"
format = "json"
"#;

#[test]
fn unusual_values_arrive() {
    let config = parse(UNUSUAL).unwrap();
    assert_eq!(config.server.drain_timeout, Duration::from_millis(60_001));
    let group = &config.groups[0];
    assert_eq!(
        (group.backend, &group.cores),
        (Backend::Mio, &Cores::List(vec![0, 1, 2, 7]))
    );
    assert_eq!(
        (group.socket.receive_buffer, group.socket.gso),
        (1_000_000, false)
    );
    assert_eq!(group.socket.busy_poll, 50);
    let options = &config.listeners[0].congestion_control.options;
    assert_eq!(
        (options.number("beta"), options.boolean("hystart")),
        (0.5, false)
    );
    let rules = &config.listeners[0].congestion_rules;
    let networks: Vec<String> = rules[0].networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["10.0.0.0/8", "fd00::/8", "192.0.2.1/32"]);
    let networks: Vec<String> = rules[1].networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["0.0.0.0/0", "::/0"]);
    assert_eq!((rules[0].share, rules[1].share), (1.0, 0.25));
    assert_eq!(rules[1].congestion_control.options.number("beta"), 0.8);
    let guard = config.listeners[0].low_rtt_guard;
    assert_eq!(guard, Some(Duration::from_micros(500)));
    assert_eq!(config.listeners[1].addresses[0].to_string(), "127.0.0.1:0");
    let Handler::Fixed {
        body: Body::Text(body),
        ..
    } = &config.routes[0].handler
    else {
        panic!()
    };
    assert_eq!(body, "a\n\t\"'''\\ \0 \u{7f} ä\r\n");
    assert_eq!(config.limits.connections_per_worker, 16);
    assert_eq!(config.quic.retry_above, None);
    assert_eq!(config.qlog.sample_rate, 1e-7);
}

#[test]
fn printed_configuration_reads_back_to_the_same() {
    for config in [
        Config::embedded(),
        parse(EXAMPLE).unwrap(),
        parse(UNUSUAL).unwrap(),
    ] {
        let printed = config.to_toml();
        let again = parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        assert_eq!(again, config);
        assert_eq!(again.to_toml(), printed);
    }
}

#[test]
fn relative_paths_start_at_the_files_folder() {
    let config = Config::from_toml("/etc/edge/edge.toml", UNUSUAL, &Registry::builtin()).unwrap();
    assert_eq!(
        config.server.state_dir.unwrap().to_str(),
        Some("/etc/edge/state")
    );
    assert_eq!(
        config.server.secrets_file.unwrap().to_str(),
        Some("/etc/se\"cret")
    );
}
