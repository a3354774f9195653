//! What requests wait for, as the access log tells it of each protocol.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::client::{Client, run};
use crate::server::{Folder, Server, Setup};
use crate::tcp::{PROTOCOLS, curl};
use crate::upstream;

/// Time that the upstream takes for the head, and again for the body.
const PAUSE: Duration = Duration::from_millis(300);
/// Path whose upstream is slow.
const SLOW: &str = "/slow/x";

async fn respond_slowly(mut stream: TcpStream) {
    let mut request = vec![0; 4096];
    while let Ok(1..) = stream.read(&mut request).await {
        sleep(PAUSE).await;
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\npart";
        if stream.write_all(head).await.is_err() {
            return;
        }
        sleep(2 * PAUSE).await;
        if stream.write_all(b"rest").await.is_err() {
            return;
        }
    }
}

fn server(folder: &Folder) -> Server {
    let slow = upstream::start(respond_slowly);
    let tables = format!(
        "[access_log]\nfile = \"access.log\"\n\
         [[route]]\npath = \"/slow/\"\nproxy = {{ upstreams = \"{slow}\" }}\n"
    );
    let setup = Setup::new("mio").listener("main", "127.0.0.1:0", "cubic").with(&tables);
    Server::start(&setup, folder)
}

/// Returns the records of all requests, and checks that the waits of each add up to its duration.
fn records(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for record in &records {
        let waits = record["waits_us"].as_object().unwrap().values();
        let sum: u64 = waits.map(|us| us.as_u64().unwrap()).sum();
        let duration = record["duration_us"].as_u64().unwrap();
        // Each is cut off to whole microseconds.
        assert!((duration.saturating_sub(20)..=duration).contains(&sum), "{record}");
    }
    records
}

#[test]
fn slow_upstreams_are_seen_over_each_protocol() {
    let folder = Folder::new();
    let mut server = server(&folder);
    for protocol in PROTOCOLS {
        if curl(&server, &folder, &[protocol], SLOW).is_none() {
            return;
        }
    }
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        assert_eq!(session.get(SLOW).await.text().await, "partrest");
        drop(session);
        client.endpoint.wait_idle().await;
    });
    server.process.last_words();
    let records = records(&folder.path("access.log"));
    assert_eq!(records.len(), 3, "{records:#?}");
    for record in records {
        assert_eq!(record["wait_top"], "upstream_body", "{record}");
        let waits = &record["waits_us"];
        for (wait, least) in [("upstream_response", PAUSE), ("upstream_body", 2 * PAUSE)] {
            let spent = Duration::from_micros(waits[wait].as_u64().unwrap());
            assert!(spent >= least.mul_f64(0.9), "{record}");
        }
    }
}

/// The client takes 20 MB a second of 64 MB: its system's buffers hold a part of them.
#[test]
fn slow_readers_are_seen_over_tcp() {
    let folder = Folder::new();
    let mut server = server(&folder);
    for protocol in PROTOCOLS {
        let slowly = [protocol, "--limit-rate", "20M", "--output", "/dev/null"];
        if curl(&server, &folder, &slowly, "/bytes/64MiB").is_none() {
            return;
        }
    }
    server.process.last_words();
    let records = records(&folder.path("access.log"));
    assert_eq!(records.len(), 2, "{records:#?}");
    for record in records {
        let flow = ["connection_flow_control", "stream_flow_control"];
        let top = record["wait_top"].as_str().unwrap();
        assert!(flow.contains(&top), "{record}");
        assert!(record["rtt_us"].as_u64().unwrap() > 0, "{record}");
    }
}
