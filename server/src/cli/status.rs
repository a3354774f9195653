//! `sluicegate status` shows which processes of the server run, and what they serve.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use sluicegate_cc::Registry;

use super::control::ControlArgs;
use super::exit::shown;
use crate::boot::ControlRequest;

/// Show the running server: its version, process, configuration and listeners, and each process that drains after an upgrade.
///
/// Run it as root or as the server's user. The server listens at control.sock in its state_dir.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    control: ControlArgs,
    /// Print the server's words as JSON
    #[arg(long)]
    json: bool,
}

/// Asks the server, prints what it says, and returns the exit code.
///
/// # Errors
/// No server can be asked, or it does not reply.
pub(super) fn run(
    args: &StatusArgs,
    runtime_dir: Option<&Path>,
    registry: &Registry,
) -> anyhow::Result<u8> {
    let show = |text: &str| {
        let status = serde_json::from_str(text).ok().filter(|_| !args.json);
        status.map_or_else(|| shown(text), |status| shown(describe(&status).trim_end()))
    };
    args.control.ask_and_show(runtime_dir, registry, &ControlRequest::Status, show)
}

/// Describes a status in lines.
fn describe(status: &Value) -> String {
    let mut out = String::new();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let [process, version, phase, since, generation] =
        ["process", "version", "phase", "since", "generation"].map(|key| text(&status[key]));
    let left = status["seconds_left"].as_u64().map(|left| format!(", for {left} s at most"));
    // A string takes whatever is written.
    let _ = writeln!(
        out,
        "process {process}, version {version}: {phase} since {since}, generation {generation}{}",
        left.unwrap_or_default()
    );
    let config = status["config"].as_str().unwrap_or("(built in)");
    let _ = writeln!(out, "configuration {} of {config}", text(&status["config_generation"]));
    let each = |key: &str| status[key].as_array().cloned().unwrap_or_default();
    for listener in each("listeners") {
        let protocols = listener["protocols"].as_array().into_iter().flatten();
        let protocols: Vec<String> = protocols.map(text).collect();
        let [name, address] = ["name", "address"].map(|key| text(&listener[key]));
        let _ = write!(out, "listener {name} at {address} ({})", protocols.join(", "));
        if protocols.iter().any(|protocol| protocol == "quic") {
            let _ = write!(out, ": {} over QUIC", connections(&listener["quic_connections"]));
        }
        out.push('\n');
    }
    let _ = writeln!(out, "all listeners: {} over TCP", connections(&status["tcp_connections"]));
    for other in each("draining") {
        let [process, generation, left] =
            ["process", "generation", "seconds_left"].map(|key| text(&other[key]));
        let _ = writeln!(
            out,
            "process {process}: draining, generation {generation}, {}, for {left} s at most",
            connections(&other["connections"])
        );
    }
    out
}

fn connections(count: &Value) -> String {
    match count.as_u64() {
        Some(1) => "1 connection".to_owned(),
        Some(count) => format!("{count} connections"),
        None => "unknown connections".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_is_a_line_for_each_listener_and_process() {
        let status = json!({
            "version": "0.1.0", "process": 21186, "phase": "serving", "since": "2026-11-30T16:00:12Z", "generation": 12,
            "config": "/etc/a.toml", "config_generation": 3, "quic_connections": 1, "tcp_connections": 2, "seconds_left": null,
            "listeners": [
                { "name": "main", "address": "0.0.0.0:443", "protocols": ["quic", "tcp"], "quic_connections": 1 },
                { "name": "main", "address": "0.0.0.0:80", "protocols": ["http"], "quic_connections": 0 },
            ],
            "draining": [{ "process": 21150, "generation": 11, "connections": 3, "seconds_left": 24 }],
        });
        assert_eq!(
            describe(&status),
            "process 21186, version 0.1.0: serving since 2026-11-30T16:00:12Z, generation 12\n\
             configuration 3 of /etc/a.toml\n\
             listener main at 0.0.0.0:443 (quic, tcp): 1 connection over QUIC\n\
             listener main at 0.0.0.0:80 (http)\n\
             all listeners: 2 connections over TCP\n\
             process 21150: draining, generation 11, 3 connections, for 24 s at most\n"
        );
        // Of another version.
        assert!(describe(&json!({})).starts_with("process null"));
    }
}
