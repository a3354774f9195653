use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use sluicegate_config::Config;

use super::*;

/// Starts a collector that sends these responses, each to one request, and closes the connection after one that is empty. Returns the
/// requests that it receives, with the number of their connection.
fn collector(responses: &[&str]) -> (SocketAddr, Receiver<(usize, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = channel();
    let mut responses: Vec<String> = responses.iter().map(|text| (*text).to_owned()).collect();
    responses.reverse();
    std::thread::spawn(move || {
        for (number, mut stream) in listener.incoming().flatten().enumerate() {
            while let Some(request) = request(&mut stream) {
                let Some(response) = responses.pop() else { return };
                if sender.send((number, request)).is_err() || response.is_empty() {
                    break;
                }
                stream.write_all(response.as_bytes()).unwrap();
                if response.contains("connection: close") {
                    break;
                }
            }
        }
    });
    (address, requests)
}

/// Reads a request with its body.
fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut block = [0; 4096];
    loop {
        match stream.read(&mut block) {
            Ok(count @ 1..) => bytes.extend_from_slice(&block[..count]),
            _ => return None,
        }
        let text = String::from_utf8_lossy(&bytes);
        let (head, _) = text.split_once("\r\n\r\n").unwrap_or_default();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if let Some(length) = length.and_then(|length| length.parse::<usize>().ok())
            && bytes.len() == head.len() + 4 + length
        {
            return Some(bytes);
        }
    }
}

fn settings(address: SocketAddr) -> Telemetry {
    Telemetry {
        endpoint: Some(format!("http://{address}/v1/traces?a=b")),
        timeout: Duration::from_secs(30),
        headers: vec![("x-token".to_owned(), "secret".to_owned())],
        ..Config::embedded().telemetry
    }
}

fn export(collector: &mut Collector) -> Result<u64, ExportError> {
    collector.export(&[])
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

#[test]
fn requests_are_posts_over_a_connection_that_stays_open() {
    let (address, requests) = collector(&[OK, OK]);
    let mut collector = Collector::new(&settings(address)).unwrap();
    assert_eq!((export(&mut collector), export(&mut collector)), (Ok(0), Ok(0)));
    for _ in 0..2 {
        let (connection, request) = requests.recv().unwrap();
        assert_eq!(connection, 0);
        let text = String::from_utf8_lossy(&request).into_owned();
        assert!(text.starts_with("POST /v1/traces?a=b HTTP/1.1\r\n"), "{text}");
        for line in [
            format!("host: {address}"),
            "content-type: application/x-protobuf".to_owned(),
            "x-token: secret".to_owned(),
        ] {
            assert!(text.contains(&format!("\r\n{line}\r\n")), "{line}: {text}");
        }
    }
}

#[test]
fn connection_that_the_collector_has_closed_is_opened_again() {
    let closing = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (address, requests) = collector(&[closing, OK, "", OK]);
    let mut collector = Collector::new(&settings(address)).unwrap();
    for _ in 0..3 {
        assert_eq!(export(&mut collector), Ok(0));
    }
    let connections: Vec<_> = (0..4).map(|_| requests.recv().unwrap().0).collect();
    assert_eq!(
        connections,
        [0, 1, 1, 2],
        "one request was sent again, as the connection had ended"
    );
}

#[test]
fn spans_that_a_collector_rejects_are_counted() {
    // ExportTracePartialSuccess { rejected_spans: 3, error_message: "no" }
    let body = "\n\x06\x08\x03\x12\x02no";
    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let (address, _requests) =
        collector(&[&response, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}\n"]);
    let mut collector = Collector::new(&settings(address)).unwrap();
    assert_eq!(export(&mut collector), Ok(3));
    assert_eq!(export(&mut collector), Ok(0), "JSON says nothing here");
}

#[test]
fn success_whose_body_breaks_off_is_a_success() {
    let (address, requests) =
        collector(&["HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nab", OK]);
    let mut collector = Collector::new(&settings(address)).unwrap();
    for connection in 0..2 {
        assert_eq!(export(&mut collector), Ok(0));
        assert_eq!(requests.recv().unwrap().0, connection);
    }
    assert!(requests.try_recv().is_err(), "nothing was sent twice");
}

#[test]
fn statuses_say_whether_to_try_again() {
    for (head, is_transient, pause, said) in [
        (
            "503 Service Unavailable\r\nretry-after: 7",
            true,
            Some(7),
            "503 Service Unavailable: bad\n",
        ),
        ("429 Too Many Requests", true, None, "429"),
        ("502 Bad Gateway", true, None, "502"),
        ("500 Internal Server Error\r\nretry-after: 7", false, None, "500"),
        ("400 Bad Request", false, None, "400"),
        ("413 Payload Too Large", false, None, "413"),
        ("404 Not Found", false, None, "check the path of telemetry.endpoint"),
        ("401 Unauthorized", false, None, "check the credentials in telemetry.headers"),
    ] {
        let response = format!("HTTP/1.1 {head}\r\ncontent-length: 4\r\n\r\nbad\n");
        let (address, _requests) = collector(&[&response]);
        let mut collector = Collector::new(&settings(address)).unwrap();
        let error = export(&mut collector).unwrap_err();
        assert_eq!(
            (error.is_transient, error.pause),
            (is_transient, pause.map(Duration::from_secs))
        );
        assert_eq!(error.is_too_large, head.starts_with("413"));
        assert!(error.cause.contains(said.trim()) && !error.cause.contains('\n'), "{error:?}");
    }
}

#[test]
fn collector_that_hangs_or_is_not_there_is_a_transient_error() {
    // The kernel accepts the connection, and nobody reads it.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let limit = Duration::from_millis(100);
    let hanging = Telemetry { timeout: limit, ..settings(address) };
    let error = export(&mut Collector::new(&hanging).unwrap()).unwrap_err();
    assert!(error.is_transient && error.cause.contains("within 100ms"), "{error:?}");
    drop(silent);
    let error = export(&mut Collector::new(&settings(address)).unwrap()).unwrap_err();
    assert!(error.is_transient && error.cause.contains("cannot connect to"), "{error:?}");
    let (address, _requests) = collector(&["nonsense\r\n\r\n"]);
    let error = export(&mut Collector::new(&settings(address)).unwrap()).unwrap_err();
    assert!(error.is_transient && error.cause.contains("no valid response"), "{error:?}");
}

#[test]
fn settings_that_cannot_be_used_name_their_key() {
    let address = "127.0.0.1:1".parse().unwrap();
    let settings = Telemetry {
        endpoint: Some("https://otel.example/v1/traces".to_owned()),
        ca: Some("/nowhere/ca.pem".into()),
        ..settings(address)
    };
    let error = Collector::new(&settings).unwrap_err().to_string();
    assert!(
        error.starts_with("`telemetry.ca`: trusted authorities in /nowhere/ca.pem: "),
        "{error}"
    );
}
