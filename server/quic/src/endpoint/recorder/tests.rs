use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use sluicegate_base::observe::qlog::{QlogOptions, QlogWriter, Sampler};
use sluicegate_cc::{
    Algorithm, Controller, Event, PacketState, PathChange, Sent, Snapshot, State, Time,
};
use sluicegate_config::QlogLevel;
use sluicegate_qlog::analysis::Summaries;
use sluicegate_qlog::follow::Follow;
use sluicegate_qlog::reader;
use sluicegate_qlog::summary::Summary;
use sluicegate_qlog::text::story;
use sluicegate_qlog::verdict::Finding;

use super::*;
use crate::endpoint::switch::AlgorithmSwitch;
use crate::endpoint::traces::{OrderedTrace, TraceOrder, TraceOutcome};
use crate::settings::{FlightRecorder, Settings};
use crate::testing::{Bench, Client, PageSession, Reply, settings};

/// Longer than the writer takes.
const LIMIT: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(40);
const STALL: Duration = Duration::from_secs(10);

/// A controller whose window stays at the floor.
#[derive(Debug)]
struct Pinned {
    mtu: u64,
}

const PINNED: Algorithm = Algorithm {
    name: "pinned",
    summary: "Two packets.",
    options: &[],
    model_based: false,
    has_window_law: true,
    scalable: false,
    build: |init, _| Box::new(Pinned { mtu: init.mtu }),
};

impl Controller for Pinned {
    fn on_sent(&mut self, _: Time, _: &Sent) -> PacketState {
        PacketState::default()
    }

    fn on_event(&mut self, _: &Event<'_>) {}

    fn on_app_limited(&mut self, _: Time, _: u64) {}

    fn on_persistent_congestion(&mut self, _: Time) {}

    fn on_discarded(&mut self, _: Time, _: u64) {}

    fn on_path_changed(&mut self, _: Time, _: PathChange) {}

    fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu;
    }

    fn cwnd(&self) -> u64 {
        2 * self.mtu
    }

    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    fn send_quantum(&self) -> u64 {
        2 * self.mtu
    }

    fn state(&self) -> State {
        State::CongestionAvoidance
    }

    fn ssthresh(&self) -> Option<u64> {
        Some(2 * self.mtu)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: self.cwnd(),
            ssthresh: self.ssthresh(),
            pacing_rate: None,
            state: self.state(),
            epoch: None,
            idle_excluded: Duration::ZERO,
            congestion_events: 0,
            model: None,
        }
    }
}

/// Returns a bench with a flight recorder that has room for `recorders` connections, and the writer of its files.
fn bench(directory: &Path, recorders: u64) -> (Bench, Arc<QlogWriter>) {
    let options = QlogOptions::new(directory.to_owned());
    let writer = Arc::new(QlogWriter::start(&options, Arc::default()).unwrap());
    let tracing = Tracing {
        sampler: Arc::new(Sampler::new(0.0, [0; 32])),
        writer: Arc::clone(&writer),
        level: QlogLevel::Base,
        visible: quiche::redact::Visible::default(),
        recorder: Some(FlightRecorder {
            memory: recorders * crate::recorder::Recorder::BYTES as u64,
            stall: STALL,
            dumps: Arc::default(),
        }),
    };
    let change = |settings: &mut Settings<PageSession>| settings.tracing = Some(tracing);
    (Bench::new(settings(change)), writer)
}

/// Returns the totals once it is known what became of all files.
fn totals(bench: &Bench) -> QuicCounters {
    let begun = &bench.endpoint.recorders.begun;
    let (_open, never) = channel::<()>();
    for _ in 0..30_000 {
        if begun.iter().all(|(file, _)| file.known().is_some()) {
            return bench.endpoint.totals();
        }
        let _ = never.recv_timeout(Duration::from_millis(2));
    }
    panic!("the writer does not say what became of a file");
}

/// Ends all traces. Returns their names, texts and summaries.
fn files(bench: Bench, writer: &QlogWriter, directory: &Path) -> Vec<(String, String, Summary)> {
    drop(bench);
    assert!(writer.shutdown(LIMIT));
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files
        .map(|path| {
            let mut summaries = Vec::new();
            let mut sink = Follow::new(Summaries::new(|summary| summaries.push(summary)));
            let tally = reader::open(&path, &mut sink).unwrap();
            assert!(!tally.is_cut && tally.bad_records == 0, "{tally:?}");
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(&path).unwrap(), summaries.pop().unwrap())
        })
        .collect();
    files.sort_by(|one, other| one.0.cmp(&other.0));
    files
}

fn id(bench: &Bench, slot: usize) -> Vec<u8> {
    bench.endpoint.connections.get(slot).unwrap().original_id().to_vec()
}

/// Lets a client download over a path whose round trip takes [`STEP`]: it reads what arrives.
fn download(bench: &mut Bench, address: &str, time: Duration, pinned: bool) {
    let client = bench.connect_client(Client::new(address));
    let (mut client, mut h3) = bench.with_session(client);
    if pinned {
        let slot = bench.endpoint.len() - 1;
        let options = PINNED.defaults();
        let order = AlgorithmSwitch { connection: id(bench, slot), algorithm: PINNED, options };
        assert!(bench.endpoint.switch_algorithm(order).unwrap().to.is_some());
    }
    let stream = client.request(&mut h3, "GET", "/bytes/10000000");
    let end = bench.now + time;
    while bench.now < end {
        client.speak(&mut bench.endpoint, bench.now);
        let said = bench.pass(STEP);
        client.hear(said);
        while h3.poll(&mut client.quic).is_ok() {}
        while h3.recv_body(&mut client.quic, stream, &mut [0; 16_384]).is_ok() {}
    }
}

#[test]
fn window_at_its_floor_has_a_file_whose_summary_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, writer) = bench(folder.path(), 8);
    download(&mut bench, "192.0.2.1:5000", Duration::from_secs(20), true);
    let counters = totals(&bench);
    assert_eq!(counters.recorder_files[Trigger::WindowFloor], 1);
    assert_eq!(bench.endpoint.gauges().recorders, 1);
    let connection = bench.endpoint.connections.get(bench.endpoint.len() - 1).unwrap();
    let told = connection.snapshot("main".into(), false, bench.now);
    assert!(told.is_window_at_floor);
    let [trouble] = told.troubles[..] else { panic!("{:?}", told.troubles) };
    assert!(trouble.name == "window_floor" && trouble.lasts > Duration::from_secs(15));
    let files = files(bench, &writer, folder.path());
    let [(name, text, summary)] = &files[..] else { panic!("{files:#?}") };
    assert!(name.contains("_main_pinned_recorder-"), "{name}");
    let records: Vec<&str> = text.lines().collect();
    assert!(records[1].contains("sluicegate:trigger") && records[1].contains("\"waits\":{"));
    let first = &summary.verdicts[0];
    assert_eq!(first.finding, Finding::PinnedAtFloor, "{summary:#?}");
    assert!(first.duration() >= 1000.0, "{first:?}");
    assert_eq!(summary.congestion_control.as_deref(), Some("pinned"));
    assert_eq!(summary.triggers.len(), 1);
    assert!((summary.triggers[0].at_ms - summary.duration_ms).abs() < 1.0, "{summary:#?}");
    let age = summary.begins_at_ms.unwrap() + summary.triggers[0].at_ms;
    assert!(name.contains(&format!("_recorder-{:.0}ms", age.floor())), "{name}: {age}");
    let rtt = summary.rtt_ms.unwrap();
    assert!((35.0..85.0).contains(&rtt.median), "{rtt:?}");
    let story = story(summary);
    let because = "because the window stayed at its floor although data waited, at ";
    assert!(
        story.contains("verdict     pinned at the floor") && story.contains(because),
        "{story}"
    );
}

#[test]
fn usual_connection_has_no_file_and_gives_its_recorder_back() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, writer) = bench(folder.path(), 8);
    let client = bench.connect_client(Client::new("192.0.2.1:5000"));
    let (mut client, mut h3) = bench.with_session(client);
    bench.talk(&mut client, Duration::from_secs(1), STEP);
    assert_eq!(bench.endpoint.gauges().recorders, 0);
    client.request(&mut h3, "GET", "/bytes/40000");
    let mut most = 0;
    for _ in 0..100 {
        bench.talk(&mut client, STEP, STEP);
        most = most.max(bench.endpoint.gauges().recorders);
    }
    assert_eq!((most, bench.endpoint.gauges().recorders), (1, 0));
    // A response is under way of which there is no more to send: the recorder serves others before long.
    client.request(&mut h3, "GET", "/app/later");
    bench.talk(&mut client, STEP, STEP);
    let key = bench.endpoint.shared().requests[0].key;
    let replies = [Reply::Head(200), Reply::Data(vec![0; 50_000])].map(|reply| (key, reply));
    bench.endpoint.shared_mut().replies.extend(replies);
    bench.endpoint.on_messages(10, bench.now);
    bench.talk(&mut client, Duration::from_secs(1), STEP);
    assert_eq!(bench.endpoint.gauges().recorders, 1);
    bench.pass(Duration::from_secs(11));
    assert_eq!(bench.endpoint.gauges().recorders, 0);
    assert!(files(bench, &writer, folder.path()).is_empty());
}

#[test]
fn storm_of_triggers_has_few_files() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, writer) = bench(folder.path(), 100);
    let mut clients: Vec<_> = (0..100)
        .map(|number| {
            let client = bench.connect_client(Client::new(&format!("192.0.2.{number}:5000")));
            bench.with_session(client)
        })
        .collect();
    for (client, h3) in &mut clients {
        client.request(h3, "GET", "/bytes/90000");
        client.speak(&mut bench.endpoint, bench.now);
    }
    // Nothing arrives any more.
    bench.pass(Duration::from_secs(15));
    let counters = totals(&bench);
    assert_eq!(counters.recorder_files[Trigger::ProbeTimeouts], 4);
    assert_eq!(counters.recorder_files[Trigger::NoProgress], 4);
    assert_eq!(counters.recorder_suppressed[Suppression::Rate], 2 * 96);
    let files = files(bench, &writer, folder.path());
    assert_eq!(files.len(), 8);
    for (_, _, summary) in files {
        assert_eq!(summary.verdicts[0].finding, Finding::PeerSilent, "{summary:#?}");
    }
}

#[test]
fn connections_beyond_the_memory_are_not_recorded_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, _writer) = bench(folder.path(), 1);
    for number in 0..3 {
        let client = bench.connect_client(Client::new(&format!("192.0.2.{number}:5000")));
        let (mut client, mut h3) = bench.with_session(client);
        client.request(&mut h3, "GET", "/bytes/90000");
        client.speak(&mut bench.endpoint, bench.now);
    }
    bench.pass(Duration::from_secs(5));
    assert_eq!(bench.endpoint.gauges().recorders, 1);
    assert!(totals(&bench).recorders_refused >= 2);
}

#[test]
fn operator_gets_what_is_recorded_at_once_and_also_of_an_idle_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, writer) = bench(folder.path(), 8);
    download(&mut bench, "192.0.2.1:5000", 10 * STEP, false);
    bench.connect_client(Client::new("192.0.2.2:5000"));
    let running = vec![id(&bench, 0), id(&bench, 1)];
    let order = TraceOrder { running, next: None, recorded: true };
    let done = bench.endpoint.trace(order, bench.now);
    let [
        OrderedTrace { outcome: TraceOutcome::Recorded(_), .. },
        OrderedTrace { outcome: TraceOutcome::Recorded(_), .. },
    ] = &done[..]
    else {
        panic!("{done:?}");
    };
    assert_eq!(totals(&bench).recorder_files[Trigger::Operator], 2);
    let mut files = files(bench, &writer, folder.path());
    files.sort_by_key(|(_, _, summary)| summary.events);
    let [(_, _, idle), (_, _, active)] = &files[..] else { panic!("{files:#?}") };
    assert_eq!(idle.duration_ms, 0.0);
    assert!(active.duration_ms > 200.0, "{active:#?}");
    assert!(active.traffic.bytes_acknowledged > 100_000, "{active:#?}");
    let age = idle.begins_at_ms.unwrap() / 1e3;
    assert!(story(idle).contains(&format!("recorded    on an operator's command, at {age:.3} s")));
}

#[test]
fn handshake_that_a_proved_client_refuses_has_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, writer) = bench(folder.path(), 8);
    for (number, code) in [(0, 0x12a), (1, 0)] {
        let mut client = Client::new(&format!("192.0.2.{number}:5000"));
        client.speak(&mut bench.endpoint, bench.now);
        let said = bench.said();
        client.hear(said);
        // Its certificate is no good, or it needs the connection no more.
        client.quic.close(false, code, b"").unwrap();
        client.speak(&mut bench.endpoint, bench.now);
        bench.pass(Duration::from_secs(10));
    }
    assert!(bench.endpoint.is_empty());
    assert_eq!(totals(&bench).recorder_files[Trigger::Handshake], 1);
    let files = files(bench, &writer, folder.path());
    assert!(story(&files[0].2).contains("because the handshake failed"));
}

#[test]
fn trigger_of_a_traced_connection_stands_in_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, writer) = bench(folder.path(), 8);
    let client = bench.connect_client(Client::new("192.0.2.1:5000"));
    let (mut client, mut h3) = bench.with_session(client);
    let running = vec![id(&bench, 0)];
    bench.endpoint.trace(TraceOrder { running, next: None, recorded: false }, bench.now);
    client.request(&mut h3, "GET", "/bytes/90000");
    client.speak(&mut bench.endpoint, bench.now);
    bench.pass(Duration::from_secs(15));
    let files = files(bench, &writer, folder.path());
    let [(name, _, summary)] = &files[..] else { panic!("{files:#?}") };
    assert!(name.contains("_from-"), "{name}");
    let told: Vec<_> = summary.triggers.iter().map(|one| one.trigger.as_str()).collect();
    assert_eq!(told, ["probe_timeouts", "no_progress"]);
    assert!(summary.triggers[1].at_ms >= 10_000.0, "{summary:#?}");
}

#[test]
fn file_that_cannot_be_written_is_counted_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    let (mut bench, _writer) = bench(&file, 8);
    download(&mut bench, "192.0.2.1:5000", 10 * STEP, false);
    let order = TraceOrder { running: vec![id(&bench, 0)], next: None, recorded: true };
    let done = bench.endpoint.trace(order, bench.now);
    let counters = totals(&bench);
    assert_eq!(counters.recorder_files[Trigger::Operator], 0);
    assert_eq!(counters.recorder_suppressed[Suppression::Disk], 1);
    assert!(done[0].outcome.file().unwrap().known().unwrap().is_err());
}
