//! `sluicegate trace` has the running server trace connections.

use std::net::{IpAddr, SocketAddr};

use anyhow::bail;
use form_urlencoded::Serializer;
use ipnet::IpNet;
use serde_json::Value;
use sluicegate_base::observe::qlog::{RECORDED_BY_ORDER, TRACED_BY_ORDER};
use sluicegate_cc::Registry;

use super::admin_client::{AdminArgs, EXIT_NONE, is_id, number, tell_of_silent, time, word};

/// Trace connections of the running server, each into a qlog file.
///
/// A trace of a running connection begins with its state. With an address or a network, the next connections of these clients
/// are traced, too. The files are in the folder that `directory` of [qlog] names; redaction and bounds are those of [qlog]. The exit code
/// is 3 if there is no such connection, and 1 if a file cannot be written.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TraceArgs {
    /// Connection, by its ID in the access log; address of a client, with a port or without; or a network, such as 192.0.2.0/24.
    #[arg(
        value_name = "ID|ADDRESS|NETWORK",
        required_unless_present = "sni",
        conflicts_with = "sni"
    )]
    connections: Option<String>,
    /// Trace the next connections that ask for this server name.
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// Trace at most so many of the next connections [default: 10].
    #[arg(long, value_name = "NUMBER")]
    count: Option<u16>,
    /// Trace the next connections that come within this time, up to 60s [default: 60s].
    #[arg(long = "for", value_name = "TIME")]
    time: Option<String>,
    /// Write what the flight recorder has of running connections, and trace no more of them.
    #[arg(long, conflicts_with_all = ["sni", "count", "time"])]
    recorder: bool,
    #[command(flatten)]
    server: AdminArgs,
    /// Print what the server replies, as JSON.
    #[arg(long)]
    json: bool,
}

/// Sends the order, writes the reply in words to `out`, and returns the exit code.
///
/// # Errors
/// The server cannot be asked, or refuses.
pub(super) fn run(
    args: &TraceArgs,
    registry: &Registry,
    out: &mut impl std::io::Write,
) -> anyhow::Result<u8> {
    let target = target(args)?;
    let reply = match args.server.order(registry, &target)? {
        Ok(reply) => reply,
        Err(code) => return Ok(code),
    };
    if args.json {
        writeln!(out, "{reply:#}")?;
    } else {
        out.write_all(told(&reply).as_bytes())?;
    }
    tell_of_silent(&reply);
    Ok(exit_code(&reply))
}

/// Returns the exit code of a reply: 3 where no connection is, or is to be, traced, and 1 where a file was not written.
fn exit_code(reply: &Value) -> u8 {
    let connections = reply["connections"].as_array().map_or(&[][..], Vec::as_slice);
    let others = number(reply, "refused") + number(reply, "left_out");
    if connections.is_empty() && others == 0.0 && !reply["next"].is_object() {
        eprintln!("no connection over QUIC is open that this names");
        return EXIT_NONE;
    }
    u8::from(connections.iter().any(|connection| connection["error"].is_string()))
}

/// Returns path and parameters of the order.
fn target(args: &TraceArgs) -> anyhow::Result<String> {
    let path = "/debug/trace?";
    let mut parameters = Serializer::for_suffix(path.to_owned(), path.len());
    match (&args.connections, &args.sni) {
        (Some(connections), _) => {
            parameters.append_pair(kind(connections)?, connections);
        }
        (None, Some(name)) => {
            parameters.append_pair("sni", name);
        }
        // clap has refused it.
        (None, None) => {}
    }
    if let Some(count) = args.count {
        parameters.append_pair("count", &count.to_string());
    }
    if let Some(time) = &args.time {
        parameters.append_pair("for", time);
    }
    if args.recorder {
        parameters.append_pair("recorder", "true");
    }
    Ok(parameters.finish())
}

/// Returns the parameter for connections that are named so.
fn kind(connections: &str) -> anyhow::Result<&'static str> {
    let is_client = connections.parse::<SocketAddr>().is_ok()
        || connections.parse::<IpAddr>().is_ok()
        || connections.parse::<IpNet>().is_ok();
    if is_client {
        return Ok("client");
    }
    if !is_id(connections) {
        bail!(
            "`{connections}` is neither a connection ID, which has hexadecimal digits, nor an IP address, with a port or without, nor a \
             network such as 192.0.2.0/24"
        );
    }
    Ok("connection")
}

/// Returns a reply in words.
fn told(reply: &Value) -> String {
    let mut text = String::new();
    let connections = reply["connections"].as_array().map_or(&[][..], Vec::as_slice);
    let directory = word(reply, "directory");
    for connection in connections {
        let begun = if connection["begun"] == false { ", begun before" } else { "" };
        let (id, client) = (word(connection, "id"), word(connection, "client"));
        let line = if connection["error"].is_string() {
            let error = word(connection, "error");
            format!("{id}  {client}  not written to {directory}: {error}\n")
        } else {
            format!("{id}  {client}  {directory}/{}{begun}\n", word(connection, "file"))
        };
        text.push_str(&line);
    }
    let left_out = if reply["recorder"] == true {
        format!("more are not written: one order writes {RECORDED_BY_ORDER} connections")
    } else {
        format!("more are not traced: one order traces {TRACED_BY_ORDER} running connections")
    };
    for (key, sentence) in [
        ("refused", "more are not traced: as many are as `max_open_traces` in [qlog] allows"),
        ("left_out", &left_out),
    ] {
        let count = number(reply, key);
        if count > 0.0 {
            text.push_str(&format!("{count} {sentence}\n"));
        }
    }
    if reply["next"].is_object() {
        let next = &reply["next"];
        text.push_str(&format!(
            "the next connections, up to {}, within {}: {directory}\n",
            number(next, "count"),
            time(number(next, "for_ms")),
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TraceArgs,
    }

    fn of(words: &[&str]) -> anyhow::Result<String> {
        let line = Line::try_parse_from([&["trace"], words].concat())?;
        target(&line.args)
    }

    #[test]
    fn connections_are_an_id_clients_or_a_server_name() {
        for (words, expected) in [
            (&["8a0f"][..], "connection=8a0f"),
            (&["192.0.2.1"], "client=192.0.2.1"),
            (&["[2001:db8::1]:5", "--count", "3"], "client=%5B2001%3Adb8%3A%3A1%5D%3A5&count=3"),
            (&["192.0.2.0/24", "--for", "5s"], "client=192.0.2.0%2F24&for=5s"),
            (&["--sni", "a.example"], "sni=a.example"),
            (&["8a0f", "--recorder"], "connection=8a0f&recorder=true"),
        ] {
            assert_eq!(of(words).unwrap(), format!("/debug/trace?{expected}"));
        }
        for words in [
            &[][..],
            &["8a0f", "--sni", "a"],
            &["somebody"],
            &[""],
            &["192.0.2.0/33"],
            &["--recorder"],
        ] {
            assert!(of(words).is_err(), "{words:?}");
        }
        let error = of(&["somebody"]).unwrap_err().to_string();
        assert!(error.contains("connection ID") && error.contains("192.0.2.0/24"), "{error}");
    }

    #[test]
    fn reply_is_told_in_lines() {
        let connection = json!({
            "id": "8a0f", "client": "192.0.2.1:5", "file": "8a0f_edge_bbr3_from-4200ms.sqlog", "begun": true,
        });
        let reply = json!({
            "directory": "/traces", "connections": [connection], "refused": 2,
            "next": { "count": 10, "for_ms": 60_000 },
        });
        let expected = "8a0f  192.0.2.1:5  /traces/8a0f_edge_bbr3_from-4200ms.sqlog\n\
                        2 more are not traced: as many are as `max_open_traces` in [qlog] allows\n\
                        the next connections, up to 10, within 60.0 s: /traces\n";
        assert_eq!(told(&reply), expected);
        assert_eq!(exit_code(&reply), 0);
        let full = json!({
            "directory": "/traces", "connections": [{
                "id": "8a0f", "client": "192.0.2.1:5", "file": "a.sqlog", "begun": true, "error": "No space left on device",
            }],
        });
        let expected = "8a0f  192.0.2.1:5  not written to /traces: No space left on device\n";
        assert_eq!((&*told(&full), exit_code(&full)), (expected, 1));
        assert_eq!(exit_code(&json!({ "connections": [], "next": null })), EXIT_NONE);
        for strange in [json!(null), json!({ "connections": [{ "id": "\u{1b}[2J" }] })] {
            assert!(!told(&strange).contains('\u{1b}'));
        }
    }
}
