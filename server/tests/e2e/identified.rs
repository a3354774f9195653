//! Identification of requests: the same ID and trace context in upstreams, responses and the access log.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::Value;

use crate::client::{Client, run};
use crate::server::{Folder, Server, Setup};

pub(crate) const CONTEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Starts a server that responds with the head of the request.
pub(crate) fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || while answer(&stream).is_some() {});
        }
    });
    address
}

fn answer(mut stream: &TcpStream) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let mut head = String::new();
    loop {
        let line = lines.next()?.ok()?;
        if line.is_empty() {
            break;
        }
        head.push_str(&line.to_ascii_lowercase());
        head.push('\n');
    }
    let length = head.len();
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{head}").ok()
}

/// Returns the value of a field in the head of a request.
pub(crate) fn value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn setup(tracing: &str, more: &str) -> Setup {
    let upstream = echo();
    Setup::new("mio")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .with(&format!("[tracing]\n{tracing}"))
        .with("[access_log]\nfile = \"access.log\"")
        .with(&format!(
            "[[route]]\npath = \"/app/\"\nproxy = {{ upstreams = \"{upstream}\" }}{more}"
        ))
        .listener("main", "127.0.0.1:0", "cubic")
}

/// Response to a request with an ID and a trace context of its client: the ID that it returns, and the head that the
/// upstream received.
struct Exchanged {
    returned: Option<String>,
    head: String,
}

/// Makes a request to a server, stops it, and returns the lines of its access log beside.
fn exchange(setup: &Setup, context: &str) -> (Exchanged, Vec<Value>) {
    let folder = Folder::new();
    let mut server = Server::start(setup, &folder);
    let exchanged = run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let fields = [
            ("x-request-id", &b"of-the-client"[..]),
            ("traceparent", context.as_bytes()),
            ("tracestate", b"a=b"),
        ];
        let response = session.get_with("/app/x", &fields).await;
        let id = response.head.headers().get("x-request-id");
        let returned = id.map(|id| id.to_str().unwrap().to_owned());
        let head = response.text().await;
        drop(session);
        client.endpoint.wait_idle().await;
        Exchanged { returned, head }
    });
    server.process.last_words();
    let text = std::fs::read_to_string(folder.path("access.log")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (exchanged, lines.collect())
}

#[test]
fn upstream_response_and_log_have_the_same_id() {
    let more = "\nrequest_headers = { set = { x-copy = \"{header:x-request-id}\" } }";
    let setup = setup("return_request_id = true", more);
    let (Exchanged { returned, head }, lines) = exchange(&setup, CONTEXT);
    let id = value(&head, "x-request-id").unwrap();
    assert_eq!(id.len(), 32, "{head}");
    assert_eq!(returned.as_deref(), Some(id));
    assert_eq!(value(&head, "x-copy"), Some(id));
    assert_eq!(value(&head, "traceparent"), Some(CONTEXT));
    assert_eq!(value(&head, "tracestate"), Some("a=b"));
    assert_eq!((&lines[0]["request_id"], &lines[0]["traceparent"]), (&id.into(), &CONTEXT.into()));
}

#[test]
fn an_accepted_id_passes_and_an_invalid_trace_context_is_made_anew() {
    let (Exchanged { returned, head }, lines) =
        exchange(&setup("accept_request_id = \"all\"", ""), "00-none");
    assert_eq!(value(&head, "x-request-id"), Some("of-the-client"));
    assert_eq!(returned, None);
    let context = value(&head, "traceparent").unwrap();
    assert!(context.len() == 55 && context.ends_with("-00"), "{context}");
    assert_eq!(value(&head, "tracestate"), None);
    assert_eq!(lines[0]["request_id"], "of-the-client");
    assert_eq!(lines[0]["traceparent"], context);
}

#[test]
fn without_identification_the_fields_pass_like_any_others() {
    let off = setup("request_id = \"off\"\ntraceparent = \"off\"", "");
    let (Exchanged { head, .. }, lines) = exchange(&off, "00-none");
    assert_eq!(value(&head, "x-request-id"), Some("of-the-client"));
    assert_eq!(value(&head, "traceparent"), Some("00-none"));
    assert_eq!((&lines[0]["request_id"], &lines[0]["traceparent"]), (&Value::Null, &Value::Null));
}
