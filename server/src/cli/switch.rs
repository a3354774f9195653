//! `sluicegate switch` gives a running connection another congestion control algorithm.

use anyhow::{Context as _, bail};
use form_urlencoded::Serializer;
use serde_json::Value;
use sluicegate_cc::Registry;

use super::admin_client::{AdminArgs, is_id, number, size, word};

/// Switch the congestion control algorithm of a running connection.
///
/// The new one begins with the connection's round-trip time, and with no larger window. Other connections keep theirs, and so does
/// the configuration. The exit code is 3 if there is no such connection.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SwitchArgs {
    /// Connection, by its ID in the access log.
    #[arg(value_name = "ID")]
    connection: String,
    /// Algorithm; `sluicegate cc` lists them.
    algorithm: String,
    /// Option of the algorithm; the others have their defaults. May be given several times.
    #[arg(short, long = "option", value_name = "NAME=VALUE")]
    options: Vec<String>,
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
    args: &SwitchArgs,
    registry: &Registry,
    out: &mut impl std::io::Write,
) -> anyhow::Result<u8> {
    let reply = match args.server.order(registry, &target(args)?)? {
        Ok(reply) => reply,
        Err(code) => return Ok(code),
    };
    if args.json {
        writeln!(out, "{reply:#}")?;
    } else {
        writeln!(out, "{}", told(&reply))?;
    }
    Ok(0)
}

/// Returns path and parameters of the order.
fn target(args: &SwitchArgs) -> anyhow::Result<String> {
    let SwitchArgs { connection, algorithm, options, .. } = args;
    if !is_id(connection) {
        bail!("`{connection}` is no connection ID, which has hexadecimal digits");
    }
    let path = format!("/debug/connections/{connection}/congestion_control?");
    let length = path.len();
    let mut parameters = Serializer::for_suffix(path, length);
    parameters.append_pair("algorithm", algorithm);
    for option in options {
        let (name, value) = option
            .split_once('=')
            .with_context(|| format!("`{option}` is no option; expected NAME=VALUE"))?;
        parameters.append_pair(name, value);
    }
    Ok(parameters.finish())
}

/// Returns a reply in words.
fn told(reply: &Value) -> String {
    let controller = |controller: &Value| {
        let window = size(number(controller, "congestion_window_bytes"));
        format!("{} ({}, {window})", word(controller, "algorithm"), word(controller, "state"))
    };
    let (from, to) = (controller(&reply["from"]), controller(&reply["to"]));
    format!("{}: from {from} to {to}", word(reply, "id"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SwitchArgs,
    }

    fn of(words: &[&str]) -> anyhow::Result<String> {
        let line = Line::try_parse_from([&["switch"], words].concat())?;
        target(&line.args)
    }

    #[test]
    fn order_has_connection_algorithm_and_options() {
        let path = "/debug/connections/8a0f/congestion_control?algorithm=bbr3";
        assert_eq!(of(&["8a0f", "bbr3"]).unwrap(), path);
        let words = ["8a0f", "bbr3", "-o", "min_window=8", "--option", "host_delay=1"];
        assert_eq!(of(&words).unwrap(), format!("{path}&min_window=8&host_delay=1"));
        for words in [&["8a0f"][..], &["192.0.2.1", "bbr3"], &["8a0f", "bbr3", "-o", "min_window"]]
        {
            assert!(of(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn reply_is_told_in_a_line() {
        let reply = json!({
            "id": "8a0f",
            "from": { "algorithm": "cubic", "state": "recovery", "congestion_window_bytes": 2400 },
            "to": { "algorithm": "bbr3", "state": "startup", "congestion_window_bytes": 2400 },
        });
        assert_eq!(told(&reply), "8a0f: from cubic (recovery, 2400 B) to bbr3 (startup, 2400 B)");
        assert!(!told(&json!({ "id": "\u{1b}[2J" })).contains('\u{1b}'));
    }
}
