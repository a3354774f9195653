use std::path::Path;

use sluicegate_base::observe::metrics::Label as _;
use sluicegate_base::observe::qlog::{QlogOptions, QlogWriter, Sampler};

use super::*;
use crate::settings::{Settings, Tracing};
use crate::testing::{Bench, Client, PageSession, settings};

/// Longer than the writer takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns a bench that samples no connection, with the writer of its traces.
fn bench(directory: &Path, change: impl FnOnce(&mut QlogOptions)) -> (Bench, Arc<QlogWriter>) {
    let mut options = QlogOptions::new(directory.to_owned());
    change(&mut options);
    let writer = Arc::new(QlogWriter::start(&options, Arc::default()).unwrap());
    let tracing = Tracing {
        sampler: Arc::new(Sampler::new(0.0, [0; 32])),
        writer: Arc::clone(&writer),
        level: QlogLevel::Base,
        visible: quiche::redact::Visible::default(),
        recorder: None,
    };
    let change = |settings: &mut Settings<PageSession>| settings.tracing = Some(tracing);
    (Bench::new(settings(change)), writer)
}

/// Orders traces of the running connections with these IDs.
fn order(bench: &mut Bench, running: &[&[u8]]) -> Vec<OrderedTrace> {
    let running = running.iter().map(|id| id.to_vec()).collect();
    bench.endpoint.trace(TraceOrder { running, next: None, recorded: false }, bench.now)
}

/// Orders traces of some of the next connections.
fn watch(bench: &mut Bench, next: NextConnections, count: usize) {
    let watch = TraceWatch::new(next, count, bench.now + Duration::from_secs(60));
    let order = TraceOrder { running: Vec::new(), next: Some(Arc::new(watch)), recorded: false };
    assert!(bench.endpoint.trace(order, bench.now).is_empty());
}

/// Ends all traces. Returns their names and their records.
fn traces(bench: Bench, writer: &QlogWriter, directory: &Path) -> Vec<(String, Vec<String>)> {
    drop(bench);
    assert!(writer.shutdown(LIMIT));
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, text.lines().map(str::to_owned).collect())
    };
    let mut traces: Vec<_> = files.map(read).collect();
    traces.sort();
    traces
}

fn id(bench: &Bench, slot: usize) -> Vec<u8> {
    bench.endpoint.connections.get(slot).unwrap().original_id().to_vec()
}

/// Returns the place of the first record with these parts.
fn place(records: &[String], parts: &[&str]) -> usize {
    let found = records.iter().position(|record| parts.iter().all(|part| record.contains(part)));
    found.unwrap_or_else(|| panic!("{parts:?}: {records:#?}"))
}

#[test]
fn running_connection_is_traced_from_its_state_on() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, writer) = bench(folder.path(), |_| {});
    let client = bench.connect_client(Client::with_window("192.0.2.1:5000", 50_000));
    let (mut client, mut h3) = bench.with_session(client);
    client.request(&mut h3, "GET", "/bytes/100000");
    bench.talk(&mut client, Duration::from_secs(4), Duration::from_millis(40));
    let id = id(&bench, 0);
    let traced = order(&mut bench, &[&id, &[1]]);
    let [OrderedTrace { outcome: TraceOutcome::Begun(file), .. }] = &traced[..] else {
        panic!("{traced:?}");
    };
    assert_eq!((traced[0].id.clone(), &*traced[0].listener), (id.clone(), "main"));
    let file = file.name().to_owned();
    let again = order(&mut bench, &[&id]);
    assert!(matches!(&again[0].outcome, TraceOutcome::GoesOn(same) if same.name() == file));
    bench.talk(&mut client, Duration::from_secs(2), Duration::from_millis(40));
    let traces = traces(bench, &writer, folder.path());
    assert_eq!(traces.len(), 1);
    let (name, records) = &traces[0];
    assert_eq!(*name, file);
    assert!(name.contains("_main_cubic_from-"), "{name}");
    assert!(records[0].contains("on_request=true"), "{}", records[0]);
    let mut places = vec![
        place(records, &["quic:parameters_set", "\"initiator\":\"local\""]),
        place(records, &["quic:parameters_set", "\"initiator\":\"remote\""]),
        place(records, &["recovery_metrics_updated", "congestion_window", "smoothed_rtt"]),
        place(records, &["congestion_state_updated", "slow_start"]),
        place(records, &["connection_state", "\"wait\":\"stream_flow_control\"", "\"waits\":{"]),
    ];
    assert!(places.is_sorted(), "{places:?}");
    places.push(place(records, &["packet_received"]));
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn traces_beyond_the_bound_are_refused_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, writer) = bench(folder.path(), |options| options.max_open = 1);
    bench.connect_client(Client::new("192.0.2.1:5000"));
    bench.connect_client(Client::new("192.0.2.1:5001"));
    let (first, second) = (id(&bench, 0), id(&bench, 1));
    let traced = order(&mut bench, &[&first, &second]);
    assert!(matches!(traced[0].outcome, TraceOutcome::Begun(_)), "{traced:?}");
    assert!(matches!(traced[1].outcome, TraceOutcome::Refused), "{traced:?}");
    assert_eq!(writer.counters().traces_refused.load(Ordering::Relaxed), 1);
}

#[test]
fn trace_that_has_reached_its_end_is_followed_by_another() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, writer) = bench(folder.path(), |options| options.max_trace_bytes = 20_000);
    let client = bench.connect_client(Client::new("192.0.2.1:5000"));
    let (mut client, mut h3) = bench.with_session(client);
    let id = id(&bench, 0);
    for _ in 0..2 {
        let traced = order(&mut bench, &[&id]);
        assert!(matches!(traced[0].outcome, TraceOutcome::Begun(_)), "{traced:?}");
        client.request(&mut h3, "GET", "/bytes/40000");
        bench.talk(&mut client, Duration::from_secs(2), Duration::from_millis(20));
    }
    let traces = traces(bench, &writer, folder.path());
    assert_eq!(traces.len(), 2);
    for (_, records) in traces {
        place(&records, &["recovery_metrics_updated", "congestion_window", "smoothed_rtt"]);
    }
}

#[test]
fn next_connections_of_a_network_are_traced_from_their_first_packets() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, writer) = bench(folder.path(), |_| {});
    let network = ClientFilter::new("192.0.2.0/24".parse().unwrap(), None);
    watch(&mut bench, NextConnections::From(network), 2);
    for address in ["198.51.100.1:1", "192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3"] {
        bench.connect_client(Client::new(address));
    }
    watch(&mut bench, NextConnections::From(network), 2);
    bench.pass(Duration::from_secs(60));
    bench.connect_client(Client::new("192.0.2.1:4"));
    assert!(bench.endpoint.watches.is_empty());
    let traces = traces(bench, &writer, folder.path());
    assert_eq!(traces.len(), 2);
    for (name, records) in traces {
        assert!(name.ends_with("_main_cubic.sqlog"), "{name}");
        place(&records, &["packet_received", "\"packet_type\":\"initial\"", "\"packet_number\":0"]);
    }
}

#[test]
fn next_connections_to_a_server_name_are_traced_from_their_handshakes() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, writer) = bench(folder.path(), |_| {});
    watch(&mut bench, NextConnections::Named("a.example".to_owned()), 2);
    let names = [Some("b.example"), None, Some("A.example"), Some("a.example"), Some("a.example")];
    for (port, name) in (5000..).zip(names) {
        bench.connect_client(Client::named(name, &format!("192.0.2.1:{port}"), 10_000));
    }
    let traces = traces(bench, &writer, folder.path());
    assert_eq!(traces.len(), 2);
    for (name, records) in traces {
        assert!(name.ends_with("_main_cubic_from-0ms.sqlog"), "{name}");
        place(&records, &["packet_sent", "\"packet_type\":\"handshake\""]);
        place(&records, &["quic:parameters_set", "\"initiator\":\"remote\""]);
        let of_peer = |record: &&String| record.contains("\"initiator\":\"remote\"");
        assert_eq!(records.iter().filter(of_peer).count(), 1);
    }
}

/// Returns times (ms), names and data of the events.
fn events(records: &[String]) -> Vec<(f64, String, serde_json::Value)> {
    let parse =
        |record: &String| serde_json::from_str(record.trim_start_matches('\u{1e}')).unwrap();
    let events = records.iter().skip(1).map(parse);
    let event = |mut event: serde_json::Value| {
        let name = event["name"].as_str().unwrap().to_owned();
        (event["time"].as_f64().unwrap(), name, event["data"].take())
    };
    events.map(event).collect()
}

/// The time between the events is that of the account.
#[test]
fn trace_tells_what_blocks_data_and_for_how_long() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, writer) = bench(folder.path(), |_| {});
    let all = ClientFilter::new("0.0.0.0/0".parse().unwrap(), None);
    watch(&mut bench, NextConnections::From(all), 1);
    let client = bench.connect_client(Client::with_window("192.0.2.1:5000", 30_000));
    let (mut client, mut h3) = bench.with_session(client);
    let step = Duration::from_millis(40);
    bench.talk(&mut client, Duration::from_secs(2), step);
    let stream = client.request(&mut h3, "GET", "/bytes/50000");
    bench.talk(&mut client, Duration::from_secs(3), step);
    while h3.poll(&mut client.quic).is_ok() {}
    while h3.recv_body(&mut client.quic, stream, &mut [0; 4096]).is_ok() {}
    client.request(&mut h3, "GET", "/app/never");
    bench.talk(&mut client, Duration::from_secs(2), step);
    let account = bench.endpoint.accounts().next().unwrap();
    let spent: Vec<_> = account.spent(bench.now).filter(|(_, time)| !time.is_zero()).collect();
    let end = (bench.now - bench.start).as_secs_f64() * 1e3;
    let traces = traces(bench, &writer, folder.path());
    let events = events(&traces[0].1);
    let waits = events.iter().filter(|(_, name, _)| name == "quic:connection_data_blocked_updated");
    let waits: Vec<_> = waits.collect();
    for (wait, time) in spent {
        let mut told = 0.0;
        for (at, (begun, _, data)) in waits.iter().enumerate() {
            let until = waits.get(at + 1).map_or(end, |(next, ..)| *next);
            assert!(until >= *begun);
            if data["trigger"] == wait.name() {
                told += until - begun;
            }
        }
        let time = time.as_secs_f64() * 1e3;
        assert!((told - time).abs() < 0.1, "{wait:?}: {told} of {time} ms");
    }
    for (wait, new, reason) in [
        ("handshake", "blocked", None),
        ("client", "unblocked", None),
        ("stream_flow_control", "blocked", Some("stream_flow_control")),
        ("application", "blocked", Some("application")),
    ] {
        let event = waits.iter().find(|(_, _, data)| data["trigger"] == wait);
        let (_, _, data) = event.unwrap_or_else(|| panic!("{wait}: {waits:#?}"));
        assert_eq!((data["new"].as_str(), data["reason"].as_str()), (Some(new), reason));
    }
    let of_stream = events.iter().filter(|(_, name, _)| name == "quic:stream_data_blocked_updated");
    let states = of_stream.map(|(_, _, data)| (data["stream_id"].as_u64(), data["new"].as_str()));
    let expected = [(Some(stream), Some("blocked")), (Some(stream), Some("unblocked"))];
    assert_eq!(states.collect::<Vec<_>>(), expected);
}
