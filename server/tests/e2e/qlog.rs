//! `sluicegate qlog` on traces that the server writes.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use crate::client::{Client, Counted, run};
use crate::installed;
use crate::on_auto;
use crate::server::{Folder, Server, Setup};

on_auto!(
    traces_of_the_server_are_summarised_drawn_and_converted,
    a_client_that_does_not_read_is_found
);

fn qlog(folder: &Path, words: &[&str]) -> Output {
    installed::output_in(folder, "qlog", words)
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn traces_of_the_server_are_summarised_drawn_and_converted(backend: &str) {
    let folder = Folder::new();
    let setup = Setup::new(backend)
        .listener("main", "127.0.0.1:0", "cubic")
        .with("[qlog]\nsample_rate = 1.0\ndirectory = \"traces\"");
    let mut server = Server::start(&setup, &folder);
    run(async {
        let client = Client::new(&folder);
        for _ in 0..2 {
            let mut session = client.connect(server.address()).await;
            let mut response = session.get("/bytes/1MiB").await;
            response.count_to_the_end(&mut Counted::default(), 1 << 20).await;
        }
        client.endpoint.wait_idle().await;
    });
    server.process.terminate();
    assert_eq!(server.process.wait().code(), Some(0));
    let traces = folder.path("traces");
    let names = fs::read_dir(&traces).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    let [one, other] = &names[..] else { panic!("{names:?}") };

    let summaries = text(&qlog(&traces, &["summary", "--json", one, other]));
    let summaries: Value = serde_json::from_str(&summaries).unwrap();
    for summary in summaries.as_array().unwrap() {
        assert_eq!(summary["congestion_control"], "cubic", "{summary:#}");
        assert_eq!(summary["vantage_point"], "server");
        assert_eq!(summary["handshake"], "complete");
        let traffic = &summary["traffic"];
        assert!(traffic["stream_bytes_sent"].as_u64().unwrap() > 1 << 20, "{summary:#}");
        assert!(traffic["bytes_acknowledged"].as_u64().unwrap() > 1 << 20, "{summary:#}");
        let waits = summary["waits"].as_array().unwrap().iter();
        let sum: f64 = waits.map(|row| row["ms"].as_f64().unwrap()).sum();
        assert!((sum - summary["duration_ms"].as_f64().unwrap()).abs() < 0.1, "{summary:#}");
    }
    let story = text(&qlog(&traces, &["summary", one]));
    assert!(story.contains("\nverdict ") && story.contains("handshake   complete"), "{story}");

    let top = text(&qlog(&traces, &["top", "."]));
    assert_eq!(top.lines().count(), 3, "{top}");
    assert!(top.starts_with("SEVERITY") && top.contains(one) && top.contains(other), "{top}");

    let svg = text(&qlog(&traces, &["plot", one, "-o", "-"]));
    assert!(svg.starts_with("<svg") && svg.contains("cwnd") && !svg.contains("NaN"));
    let table = text(&qlog(&traces, &["compare", one, other, "-o", "both.svg"]));
    assert!(table.contains("window, median"), "{table}");
    assert!(traces.join("both.svg").exists());

    let converted = text(&qlog(&traces, &["convert", "--to", "0.3", one]));
    let json: Value = serde_json::from_str(&converted).unwrap();
    let events = json["traces"][0]["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["name"] == "recovery:metrics_updated"));

    damaged(&traces, one);
}

/// It does not read for a second: a trace that is shorter has no verdict on that.
fn a_client_that_does_not_read_is_found(backend: &str) {
    let folder = Folder::new();
    let setup = Setup::new(backend)
        .listener("main", "127.0.0.1:0", "bbr3")
        .with("[qlog]\nsample_rate = 1.0\ndirectory = \"traces\"");
    let mut server = Server::start(&setup, &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let _response = session.get("/bytes/100000000").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.endpoint.close(0_u32.into(), b"");
        client.endpoint.wait_idle().await;
    });
    server.process.terminate();
    assert_eq!(server.process.wait().code(), Some(0));
    let top = text(&qlog(&folder.path("traces"), &["top", "--json", "."]));
    let lines: Value = serde_json::from_str(&top).unwrap();
    let file = lines[0]["file"].as_str().unwrap();
    let summary = text(&qlog(&folder.path("traces"), &["summary", "--json", file]));
    let summaries: Value = serde_json::from_str(&summary).unwrap();
    // A busy machine may lose packets of the start, too.
    let verdicts = summaries[0]["verdicts"].as_array().unwrap();
    assert!(verdicts.iter().any(|one| one["finding"] == "flow_control_limited"), "{summary}");
}

/// A trace that is cut says so, and what is no trace is refused.
fn damaged(traces: &Path, one: &str) {
    let whole = fs::read(traces.join(one)).unwrap();
    fs::write(traces.join("cut"), &whole[..whole.len() - 20]).unwrap();
    let story = text(&qlog(traces, &["summary", "cut"]));
    assert!(story.contains("the last record is incomplete"), "{story}");
    for (content, why) in [("", "empty"), ("hello\n", "JSON"), ("{\"a\":1}\n", "no qlog header")] {
        fs::write(traces.join("none"), content).unwrap();
        let refused = qlog(traces, &["summary", "none"]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(error.starts_with("none: not a qlog trace: ") && error.contains(why), "{error}");
    }
    let refused = qlog(traces, &["summary", "."]);
    assert_eq!(refused.status.code(), Some(2));
    let missing = qlog(traces, &["summary", "missing"]);
    assert_eq!(missing.status.code(), Some(1));
}
