//! `sluicegate why` says what connections of the running server wait for.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use anyhow::bail;
use form_urlencoded::byte_serialize;
use hyper::Method;
use serde_json::Value;
use sluicegate_base::observe::account::Wait;
use sluicegate_base::observe::metrics::Label as _;
use sluicegate_cc::Registry;

use super::admin_client::{
    AdminArgs, EXIT_NONE, Reply, is_id, number, plain, size, tell_of_silent, time, word,
};

/// Connections that are shown of a list.
const SHOWN: usize = 20;

/// Say what connections of the running server wait for.
///
/// Without a connection it lists those that have been busy longest: that have waited for anything but their clients without a break.
/// The exit code is 3 if a connection is named and there is none of that name; that nobody is connected is no error.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct WhyArgs {
    /// Connection: its ID, as the access log has it, or the address of its client, with a port or without.
    connection: Option<String>,
    #[command(flatten)]
    server: AdminArgs,
    /// Print what the server replies, as JSON.
    #[arg(long)]
    json: bool,
}

/// Asks the server, writes its reply in words to `out`, and returns the exit code.
///
/// # Errors
/// The server cannot be asked, or refuses.
pub(super) fn run(
    args: &WhyArgs,
    registry: &Registry,
    out: &mut impl std::io::Write,
) -> anyhow::Result<u8> {
    let path = path(args.connection.as_deref())?;
    let reply = match args.server.request(registry, &Method::GET, &path)? {
        Reply::Found(reply) => reply,
        Reply::NotFound(reason) if path.starts_with("/debug/connections/") => {
            eprint!("{reason}");
            return Ok(EXIT_NONE);
        }
        Reply::NotFound(reason) => bail!("the server has no such page: {}", reason.trim_end()),
        Reply::WrongConfig(code) => return Ok(code),
    };
    if args.json {
        writeln!(out, "{reply:#}")?;
        return Ok(0);
    }
    let found = match reply.get("connections").and_then(Value::as_array) {
        None => {
            out.write_all(story(&reply).as_bytes())?;
            return Ok(0);
        }
        Some(found) => found,
    };
    if let ([only], true) = (&found[..], args.connection.is_some()) {
        out.write_all(story(only).as_bytes())?;
        return Ok(0);
    }
    let is_part = tell_of_silent(&reply);
    if found.is_empty() {
        if is_part {
            bail!("no such connection was found among those of the other workers");
        }
        let said = if args.connection.is_some() { "no such connection" } else { "no connections" };
        writeln!(out, "{said}")?;
        return Ok(if args.connection.is_some() { EXIT_NONE } else { 0 });
    }
    out.write_all(table(found).as_bytes())?;
    let count = reply["count"].as_u64().unwrap_or(0);
    if count > found.len() as u64 {
        writeln!(out, "{} of {count} connections", found.len())?;
    }
    Ok(0)
}

/// Returns the path of what is asked for.
fn path(connection: Option<&str>) -> anyhow::Result<String> {
    let list = format!("/debug/connections?limit={SHOWN}");
    let Some(connection) = connection else {
        return Ok(list);
    };
    let is_address =
        connection.parse::<SocketAddr>().is_ok() || connection.parse::<IpAddr>().is_ok();
    if is_address {
        let client: String = byte_serialize(connection.as_bytes()).collect();
        return Ok(format!("{list}&client={client}"));
    }
    if !is_id(connection) {
        bail!(
            "`{connection}` is neither a connection ID, which has hexadecimal digits, nor an IP address, with a port or without"
        );
    }
    Ok(format!("/debug/connections/{connection}"))
}

/// Returns what a wait means. A server of another version may have others.
fn meaning(wait: &str) -> &'static str {
    Wait::ALL.iter().find(|known| known.name() == wait).map_or("", |known| known.meaning())
}

/// Returns the word on a client that owes a reply and is silent: by the probe timeouts of RFC 9002 §6.2 it would have replied.
fn silence(connection: &Value) -> String {
    let owes = matches!(
        &*word(connection, "wait"),
        "handshake" | "amplification_protection" | "congestion_control" | "acknowledgement"
    );
    let silence = number(connection, "silence_ms");
    let rtt = connection["rtt_ms"].as_f64().unwrap_or(333.0);
    if owes && silence > (3.0 * rtt).max(500.0) {
        format!("; nothing has come from the client for {}", time(silence))
    } else {
        String::new()
    }
}

/// Returns a line for each thing that is wrong with a connection.
fn troubles(connection: &Value) -> String {
    let troubles = connection["troubles"].as_array().into_iter().flatten();
    let lines = troubles.map(|trouble| {
        let lasts = time(number(trouble, "lasts_ms"));
        format!("trouble    for {lasts}, {}\n", word(trouble, "meaning"))
    });
    lines.collect()
}

/// Returns a connection in words.
pub(super) fn story(connection: &Value) -> String {
    let mut text = String::new();
    let wait = word(connection, "wait");
    let (window, mtu) =
        (number(connection, "congestion_window_bytes"), number(connection, "mtu_bytes"));
    let age = number(connection, "age_ms");
    let rtt = match connection["rtt_ms"].as_f64() {
        Some(rtt) => {
            format!("round trip {}, at best {}", time(rtt), time(number(connection, "min_rtt_ms")))
        }
        None => "no round trip was measured".to_owned(),
    };
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "connection {} ({}), {} old; requests: {}\n\
         client     {}{} at listener {}, worker {}\n\
         waits for  {wait}, for {}\n           {}{}\n\
         {}window     {}, {:.1} packets of {} B{}; {} in state {}\n\
         path       {rtt}{}\n\
         sent       {}\n\
         received   {}\n",
        word(connection, "id"),
        word(connection, "protocol"),
        time(age),
        connection["requests"].as_u64().unwrap_or(0),
        word(connection, "client"),
        if connection["client_validated"] == false { " (not proved)" } else { "" },
        word(connection, "listener"),
        word(connection, "worker"),
        time(number(connection, "waiting_ms")),
        meaning(&wait),
        silence(connection),
        troubles(connection),
        size(window),
        if mtu > 0.0 { window / mtu } else { 0.0 },
        mtu,
        if connection["congestion_window_at_floor"] == true { ", at its floor" } else { "" },
        word(connection, "algorithm"),
        word(connection, "state"),
        connection["delivery_rate_bytes_per_second"]
            .as_f64()
            .map_or_else(String::new, |rate| format!("; delivers {}/s", size(rate))),
        sent(connection),
        size(number(connection, "received_bytes")),
    );
    let waits = connection["waits_ms"].as_object();
    let mut waits: Vec<(&str, f64)> = waits
        .into_iter()
        .flatten()
        .map(|(name, ms)| (name.as_str(), ms.as_f64().unwrap_or(0.0)))
        .collect();
    waits.sort_by(|one, other| other.1.total_cmp(&one.1));
    let shares = waits.iter().map(|(name, ms)| {
        let share = if age > 0.0 { 100.0 * ms / age } else { 0.0 };
        format!("{} {} ({share:.0} %)", plain(name), time(*ms))
    });
    let _ = writeln!(text, "so far     {}", shares.collect::<Vec<_>>().join(", "));
    text.push_str(&requests(connection));
    text
}

/// Returns what was sent, and what came of it. Over TCP the system does not say what was lost.
fn sent(connection: &Value) -> String {
    let (sent, again) =
        (number(connection, "sent_bytes"), number(connection, "retransmitted_bytes"));
    let share = |part: f64| if sent > 0.0 { 100.0 * part / sent } else { 0.0 };
    let count = |key: &str| connection[key].as_u64();
    let timeouts = match (count("probe_timeouts"), count("retransmission_timeouts")) {
        (Some(timeouts), _) => format!(", {timeouts} probe timeouts"),
        (None, Some(timeouts)) => format!(", {timeouts} retransmission timeouts"),
        (None, None) => String::new(),
    };
    match connection["lost_bytes"].as_f64() {
        Some(lost) => format!(
            "{}, of which {} lost ({:.1} %, {} packets); {} of streams sent again{timeouts}",
            size(sent),
            size(lost),
            share(lost),
            count("lost_packets").unwrap_or(0),
            size(again),
        ),
        None => {
            format!(
                "{}, of which {} again ({:.1} %){timeouts}",
                size(sent),
                size(again),
                share(again)
            )
        }
    }
}

/// Returns what a connection waits for, and what is wrong with it; if that is its requests, what most of them wait for, too.
fn wait_and_requests(connection: &Value) -> String {
    let wait = word(connection, "wait");
    if let Some(trouble) = connection["troubles"].get(0) {
        return format!("{wait}: {}", plain(&word(trouble, "name")));
    }
    let of_requests = connection["request_waits"].as_object().into_iter().flatten();
    let most = of_requests.max_by_key(|(_, count)| count.as_u64());
    match most {
        Some((of_request, _)) if wait == "application" && *of_request != wait => {
            format!("{wait}: {}", plain(of_request))
        }
        _ => wait,
    }
}

/// Returns a line for each open request of a connection.
fn requests(connection: &Value) -> String {
    let streams = connection["streams"].as_array().into_iter().flatten();
    let lines = streams.map(|request| {
        let (method, path) = (request["method"].as_str(), request["path"].as_str());
        let target = match (method, path) {
            (Some(_), Some(_)) => {
                format!("{} {}", word(request, "method"), word(request, "path"))
            }
            // They are kept for the access log alone.
            _ => "request".to_owned(),
        };
        let (kind, number_of) = match request["number"].as_u64() {
            Some(number) => ("request", number),
            None => ("stream", request["stream"].as_u64().unwrap_or(0)),
        };
        format!(
            "{kind:10} {number_of}: {target}, {} old, waits for {} ({}); {} sent, {} received\n",
            time(number(request, "age_ms")),
            word(request, "wait"),
            time(number(request, "waiting_ms")),
            size(number(request, "bytes_sent")),
            size(number(request, "bytes_received")),
        )
    });
    lines.collect()
}

/// Heads of the columns of a list of connections.
pub(super) const HEAD: [&str; 11] = [
    "ID",
    "CLIENT",
    "PROTOCOL",
    "BUSY",
    "WAITS FOR",
    "FOR",
    "ALGORITHM",
    "WINDOW",
    "RTT",
    "SENT",
    "LOST",
];

/// Returns what stands in these columns for a connection.
pub(super) fn row(connection: &Value) -> [String; 11] {
    [
        word(connection, "id"),
        word(connection, "client"),
        word(connection, "protocol"),
        match number(connection, "busy_ms") {
            0.0 => "-".to_owned(),
            busy => time(busy),
        },
        wait_and_requests(connection),
        time(number(connection, "waiting_ms")),
        word(connection, "algorithm"),
        size(number(connection, "congestion_window_bytes")),
        connection["rtt_ms"].as_f64().map_or_else(|| "-".to_owned(), time),
        size(number(connection, "sent_bytes")),
        connection["lost_bytes"].as_f64().map_or_else(|| "-".to_owned(), size),
    ]
}

/// Returns a line for each connection.
fn table(connections: &[Value]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(connections.iter().map(row));
    let mut widths = [0; 11];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn connection_is_an_id_or_an_address() {
        for (text, end) in [
            ("8a0f", "/8a0f"),
            ("192.0.2.1", "client=192.0.2.1"),
            ("192.0.2.1:5", "client=192.0.2.1%3A5"),
            ("2001:db8::1", "client=2001%3Adb8%3A%3A1"),
            ("[fe80::1%12]:5", "client=%5Bfe80%3A%3A1%2512%5D%3A5"),
        ] {
            assert!(path(Some(text)).unwrap().ends_with(end), "{text}");
        }
        for text in ["", "somebody", "8a 0f", "../metrics", "192.0.2.1:"] {
            let error = path(Some(text)).unwrap_err().to_string();
            assert!(error.contains("connection ID") && error.contains("IP address"), "{error}");
        }
        assert!(path(None).unwrap().ends_with("limit=20"));
    }

    #[test]
    fn connection_is_told_in_words() {
        let connection = json!({
            "id": "8a0f", "client": "192.0.2.1:5", "protocol": "h3", "listener": "edge", "worker": "main/0",
            "wait": "congestion_control", "waiting_ms": 4200.0, "busy_ms": 9000.0, "age_ms": 10_000.0, "requests": 1,
            "waits_ms": { "client": 1000.0, "congestion_control": 9000.0 },
            "algorithm": "cubic", "state": "avoidance", "rtt_ms": 120.0, "min_rtt_ms": 9.5,
            "congestion_window_bytes": 2400, "congestion_window_at_floor": true, "mtu_bytes": 1200,
            "sent_bytes": 100_000, "lost_packets": 10, "lost_bytes": 12_000, "probe_timeouts": 5,
            "request_waits": { "upstream_response": 1 },
            "troubles": [{ "name": "window_floor", "lasts_ms": 4100.0, "meaning": "the window stays at its floor" }],
            "streams": [{
                "stream": 4, "method": "GET", "path": "/a", "age_ms": 5000.0, "wait": "upstream_response",
                "waiting_ms": 4000.0, "bytes_sent": 0, "bytes_received": 12,
            }],
        });
        let text = story(&connection);
        for part in [
            "connection 8a0f (h3), 10.0 s old; requests: 1",
            "waits for  congestion_control, for 4.2 s",
            "\ntrouble    for 4.1 s, the window stays at its floor\nwindow     ",
            "2400 B, 2.0 packets of 1200 B, at its floor; cubic in state avoidance",
            "round trip 120 ms, at best 9.5 ms",
            "100 kB, of which 12 kB lost (12.0 %, 10 packets)",
            "so far     congestion_control 9.0 s (90 %), client 1.0 s (10 %)",
            "stream     4: GET /a, 5.0 s old, waits for upstream_response (4.0 s); 0 B sent, 12 B received",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(!text.contains("nothing has come"), "{text}");
        assert!(
            table(std::slice::from_ref(&connection)).contains("congestion_control: window_floor")
        );
        let mut connection = connection;
        connection["troubles"] = json!([]);
        let mut silent = connection.clone();
        silent["silence_ms"] = json!(4000);
        assert!(story(&silent).contains("nothing has come from the client for 4.0 s"));
        let lines = table(&[connection]);
        assert!(lines.starts_with("ID    CLIENT       PROTOCOL  BUSY   WAITS FOR"), "{lines}");
        assert!(
            lines.contains("8a0f  192.0.2.1:5  h3        9.0 s  congestion_control  4.2 s"),
            "{lines}"
        );
        let mut over_tcp = silent.clone();
        over_tcp["lost_bytes"] = json!(null);
        over_tcp["probe_timeouts"] = json!(null);
        over_tcp["retransmitted_bytes"] = json!(3000);
        over_tcp["retransmission_timeouts"] = json!(2);
        over_tcp["streams"] = json!([{ "stream": null, "number": 3 }]);
        let text = story(&over_tcp);
        let told = "sent       100 kB, of which 3000 B again (3.0 %), 2 retransmission timeouts\n";
        assert!(text.contains(told) && text.contains("request    3: request, "), "{text}");
        assert!(table(&[over_tcp]).trim_end().ends_with("  -"));
        let mut of_requests = silent.clone();
        of_requests["wait"] = json!("application");
        let lines = table(&[of_requests]);
        assert!(lines.contains("application: upstream_response  4.2 s"), "{lines}");
    }

    /// Whatever listens at the address may be no Sluicegate.
    #[test]
    fn strange_replies_do_no_harm() {
        for strange in
            [json!({}), json!({ "id": 3, "waits_ms": [1], "wait": "\u{1b}[2J" }), json!(null)]
        {
            assert!(!story(&strange).contains('\u{1b}'));
            assert!(!table(&[strange]).contains('\u{1b}'));
        }
    }
}
