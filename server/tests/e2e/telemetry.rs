//! Spans of requests, and collectors that do not take them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread::park_timeout;
use std::time::Duration;

use serde_json::Value;
use sluicegate_dataplane::requirements::skip;

use crate::admin::{ADMIN, address, metrics, sum, until};
use crate::client::{Client, run};
use crate::identified::{CONTEXT, echo, value};
use crate::on_auto;
use crate::ports::free;
use crate::server::{Folder, PAGE, Process, Server, Setup, field, total};
use crate::tcp::{PROTOCOLS, curl};
use crate::transfer::python;

on_auto!(
    spans_of_every_protocol_reach_a_collector,
    service_goes_on_whatever_the_collector_does,
    a_reload_begins_and_ends_the_export,
);

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Returns a collector that decodes spans, and its port; `None`, reported as missing, where no Python can.
fn collector(folder: &Folder) -> Option<(Process, String)> {
    let remedy = "no Python has opentelemetry-proto; `make venv` makes one that does";
    let Some(python) = python() else {
        skip("aioquic", &remedy);
        return None;
    };
    let probe = ["-c", "import opentelemetry.proto.trace.v1.trace_pb2"];
    if !Command::new(&python).args(probe).output().is_ok_and(|found| found.status.success()) {
        skip("aioquic", &remedy);
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/otlp_collector.py");
    let mut command = Command::new(python);
    command.arg(script);
    let mut process = Process::spawn(command, folder.path("").as_path());
    let port = field(&process.line_with(&["port="]), "port");
    Some((process, port))
}

fn setup(backend: &str, telemetry: &str) -> Setup {
    let upstream = echo();
    Setup::new(backend)
        .with(&format!(
            "[telemetry]\nservice_name = \"edge\"\nheaders = {{ x-token = \"secret\" }}\n{telemetry}"
        ))
        .with(&format!("[[route]]\npath = \"/app/\"\nproxy = {{ upstreams = \"{upstream}\" }}"))
        .with(ADMIN)
        .listener("main", "127.0.0.1:0", "cubic")
}

/// Checks the two spans of a request to the upstream, which received `head`.
fn check(spans: &[Value], head: &str, version: &str) {
    let of_kind = |kind: &str| {
        let mut found = spans.iter().filter(|span| {
            span["kind"] == kind && span["trace"] == TRACE && version_of(spans, span) == version
        });
        found.next().unwrap_or_else(|| panic!("{kind} {version}: {spans:#?}"))
    };
    let (server, client) = (of_kind("SPAN_KIND_SERVER"), of_kind("SPAN_KIND_CLIENT"));
    assert_eq!((&server["name"], &server["parent"]), (&"GET /app/".into(), &PARENT.into()));
    assert_eq!((&server["state"], &server["status"]), (&"a=b".into(), &"STATUS_CODE_UNSET".into()));
    let attributes = &server["attributes"];
    for (key, expected) in [
        ("http.request.method", "GET"),
        ("url.scheme", "https"),
        ("url.path", "/app/x"),
        ("http.route", "/app/"),
        ("client.address", "127.0.0.1"),
        ("network.protocol.name", "http"),
    ] {
        assert_eq!(attributes[key], expected, "{server:#}");
    }
    assert_eq!(attributes["http.response.status_code"], 200);
    assert_eq!(attributes.get("url.query"), None, "{server:#}");
    assert_eq!(server["resource"]["service.name"], "edge");
    let waits = attributes.as_object().unwrap().iter();
    let waits = waits.filter(|(key, value)| key.starts_with("sluicegate.wait.") && value.is_f64());
    let seconds: f64 = waits.map(|(_, value)| value.as_f64().unwrap()).sum();
    let duration = server["nanos"].as_f64().unwrap() / 1e9;
    assert!((seconds - duration).abs() < 1e-6, "the waits add up: {server:#}");
    assert_eq!(client["parent"], server["span"]);
    assert!(client["start"].as_u64() >= server["start"].as_u64(), "{client:#}");
    assert!(client["nanos"].as_u64() <= server["nanos"].as_u64(), "{client:#}");
    let sent = format!("00-{TRACE}-{}-01", client["span"].as_str().unwrap());
    assert_eq!(
        value(head, "traceparent"),
        Some(&*sent),
        "the upstream's spans stand below this one"
    );
    assert_eq!(value(head, "tracestate"), Some("a=b"));
}

/// Returns the version of HTTP of a request's span, or of the one above it.
fn version_of(spans: &[Value], span: &Value) -> String {
    let version = |span: &Value| span["attributes"].get("network.protocol.version").cloned();
    let above = || spans.iter().find(|other| other["span"] == span["parent"]).and_then(version);
    let found = version(span).or_else(above).unwrap_or_default();
    found.as_str().unwrap_or_default().to_owned()
}

fn spans_of_every_protocol_reach_a_collector(backend: &str) {
    let folder = Folder::new();
    let Some((mut collector, port)) = collector(&folder) else { return };
    let telemetry = format!(
        "endpoint = \"http://127.0.0.1:{port}\"\nsample_rate = 0.0\nfollow_parent = \"all\""
    );
    let mut server = Server::start(&setup(backend, &telemetry), &folder);
    let mut heads = Vec::new();
    let traceparent = format!("traceparent: {CONTEXT}");
    for protocol in PROTOCOLS {
        let words = [protocol, "--header", &traceparent, "--header", "tracestate: a=b"];
        let Some(head) = curl(&server, &folder, &words, "/app/x?token=secret") else { return };
        heads.push(String::from_utf8(head).unwrap());
        // Nobody sampled it.
        let head = curl(&server, &folder, &[protocol], "/app/unsampled").unwrap();
        let head = String::from_utf8(head).unwrap();
        assert!(value(&head, "traceparent").unwrap().ends_with("-00"), "{head}");
    }
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let fields = [("traceparent", CONTEXT.as_bytes()), ("tracestate", b"a=b")];
        let response = session.get_with("/app/x?token=secret", &fields).await;
        heads.push(response.text().await);
        assert_eq!(session.get_with("/", &fields).await.text().await, PAGE);
        drop(session);
        client.endpoint.wait_idle().await;
    });
    let said = server.process.last_words();
    assert_eq!(total(&said, "telemetry", "exported"), 4);
    let lines = (0..7).map(|_| collector.line_with(&["\"kind\""]));
    let spans: Vec<Value> = lines.map(|line| serde_json::from_str(&line).unwrap()).collect();
    for (head, version) in heads.iter().zip(["1.1", "2", "3"]) {
        check(&spans, head, version);
    }
    let text = serde_json::to_string(&spans).unwrap();
    assert!(!text.contains("token") && !text.contains("unsampled"), "{text}");
    assert_eq!(text.matches("\"GET /\"").count(), 1, "{text}");
}

/// Starts a collector that reads requests and sends `response` to each, after `pause`; nothing if that is empty.
fn bad_collector(response: &'static str, pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut block = vec![0; 1 << 20];
                while let Ok(1..) = stream.read(&mut block) {
                    park_timeout(pause);
                    if stream.write_all(response.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn service_goes_on_whatever_the_collector_does(backend: &str) {
    let nobody = free().local_addr().unwrap();
    let none = Duration::ZERO;
    for (name, collector) in [
        ("refuses", nobody),
        ("fails", bad_collector("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n", none)),
        ("hangs", bad_collector("", none)),
        ("stops", bad_collector("HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n", none)),
        ("talks nonsense", bad_collector("\0\0\0\r\n\r\n", none)),
    ] {
        let folder = Folder::new();
        let telemetry = format!(
            "endpoint = \"http://{collector}/v1/traces\"\nqueue = \"64KiB\"\ntimeout = \"200ms\""
        );
        let mut server = Server::start(&setup(backend, &telemetry), &folder);
        let admin = address(&mut server);
        run(async {
            let client = Client::new(&folder);
            let mut session = client.connect(server.address()).await;
            for _ in 0..1000 {
                assert_eq!(session.get("/").await.text().await, PAGE);
            }
            drop(session);
            client.endpoint.wait_idle().await;
        });
        let warning = "telemetry: the collector does not take spans";
        server.process.line_with(&[warning]);
        let found = metrics(admin);
        assert!(sum(&found, "sluicegate_telemetry_exports_failed_total") > 0.0, "{name}");
        assert!(found["sluicegate_telemetry_queued_bytes"] <= 65536.0, "{name}");
        let said = server.process.last_words();
        let figures = ["exported", "dropped_queue", "dropped_collector"];
        let [exported, queue, lost] = figures.map(|figure| total(&said, "telemetry", figure));
        assert_eq!(exported, 0, "{name}");
        // A collector that hangs has the last batch when the process ends.
        assert!((1..=1000).contains(&(queue + lost)), "{name}: {queue} and {lost}");
        assert_eq!(said.iter().filter(|line| line.contains(warning)).count(), 1, "{name}");
    }
}

fn a_reload_begins_and_ends_the_export(backend: &str) {
    let folder = Folder::new();
    let slow = Duration::from_millis(300);
    let collector = bad_collector("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", slow);
    let exporting = setup(backend, &format!("endpoint = \"http://{collector}\""));
    let off = setup(backend, "");
    let mut server = Server::start(&off, &folder);
    let admin = address(&mut server);
    let exported = "sluicegate_telemetry_requests_exported_total";
    assert!(!metrics(admin).contains_key(exported));
    server.reload(&exporting, &folder, "reloaded");
    let Some(page) = curl(&server, &folder, &["--http1.1"], "/") else { return };
    assert_eq!(page, PAGE.as_bytes());
    until(admin, exported, 1.0);
    server.reload(&off, &folder, "reloaded");
    let head = curl(&server, &folder, &["--http2", "--header", "traceparent: none"], "/app/x");
    let context =
        value(std::str::from_utf8(&head.unwrap()).unwrap(), "traceparent").map(str::to_owned);
    assert!(context.is_some_and(|context| context.ends_with("-00")), "as without spans");
    let wrong = setup(backend, "endpoint = \"grpc://127.0.0.1:4317\"");
    let refusal = server.reload(&wrong, &folder, "refused");
    assert!(refusal.contains("http://127.0.0.1:4318/v1/traces"), "{refusal}");
    server.process.last_words();
}
