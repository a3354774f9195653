//! Heads that are encoded once and sent on many streams.

use std::io::Write;
use std::sync::{Arc, Mutex};

use quiche::h3::{self, EncodedHeaders, Header, Priority};
use sluicegate_test_support::{config, Pair};

/// Collects a trace.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<u8>>>);

impl Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("unpoisoned").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn lines(lines: &[(&str, &str)]) -> Vec<Header> {
    let line = |(name, value): &(&str, &str)| Header::new(name.as_bytes(), value.as_bytes());
    lines.iter().map(line).collect()
}

/// Returns both sides of a connection that has `count` requests open.
fn request(pair: &mut Pair, count: usize) -> (h3::Connection, h3::Connection) {
    let config = h3::Config::new().expect("config");
    let mut client = h3::Connection::with_transport(&mut pair.client, &config).expect("client");
    let mut server = h3::Connection::with_transport(&mut pair.server, &config).expect("server");
    let request = lines(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/"),
    ]);
    for _ in 0..count {
        client
            .send_request(&mut pair.client, &request, true)
            .expect("sent");
    }
    pair.settle();
    while server.poll(&mut pair.server).is_ok() {}
    (client, server)
}

#[test]
fn streams_share_a_head_that_is_encoded_once() {
    let mut pair = Pair::connect(&mut config(1000), &mut config(1000));
    let trace = Trace::default();
    let (title, text) = ("title".to_owned(), "text".to_owned());
    pair.server.set_qlog(Box::new(trace.clone()), title, text);
    let (mut client, mut server) = request(&mut pair, 3);
    let head = lines(&[
        (":status", "200"),
        ("x-name", "some value"),
        ("etag", "\"1\""),
    ]);
    let encoded = EncodedHeaders::new(&head).expect("encoded");
    let priority = Priority::default();
    for stream in [0, 4] {
        let sent =
            server.send_encoded_response(&mut pair.server, stream, &encoded, &priority, true);
        assert_eq!(sent, Ok(()));
    }
    let sent = server.send_encoded_response(&mut pair.server, 8, &encoded, &priority, false);
    assert_eq!(sent, Ok(()));
    let again = server.send_encoded_response(&mut pair.server, 8, &encoded, &priority, false);
    assert_eq!(again, Err(h3::Error::FrameUnexpected));
    assert_eq!(server.send_body(&mut pair.server, 8, b"body", true), Ok(4));
    pair.settle();

    let (mut heads, mut finished) = (Vec::new(), Vec::new());
    loop {
        match client.poll(&mut pair.client) {
            Ok((stream, h3::Event::Headers { list, .. })) => {
                assert_eq!(list, head);
                heads.push(stream);
            }
            Ok((stream, h3::Event::Data)) => {
                let mut buffer = [0; 16];
                let read = client.recv_body(&mut pair.client, stream, &mut buffer);
                assert_eq!((stream, read, &buffer[..4]), (8, Ok(4), &b"body"[..]));
            }
            Ok((stream, h3::Event::Finished)) => finished.push(stream),
            Ok(_) => {}
            Err(h3::Error::Done) => break,
            Err(error) => panic!("poll: {error}"),
        }
    }
    heads.sort_unstable();
    finished.sort_unstable();
    assert_eq!((heads, finished), (vec![0, 4, 8], vec![0, 4, 8]));
    let trace = String::from_utf8(trace.0.lock().expect("unpoisoned").clone()).expect("text");
    let traced = trace
        .matches(r#""name":"x-name","value":"<redacted>""#)
        .count();
    assert_eq!(traced, 3, "{trace}");
}

#[test]
fn a_head_waits_until_flow_control_has_room_for_the_whole() {
    let mut client = config(1000);
    client.set_initial_max_stream_data_bidi_local(50);
    let mut pair = Pair::connect(&mut client, &mut config(1000));
    let (_, mut server) = request(&mut pair, 1);
    let long = "v".repeat(200);
    let encoded =
        EncodedHeaders::new(&lines(&[(":status", "200"), ("x", &long)])).expect("encoded");
    let sent =
        server.send_encoded_response(&mut pair.server, 0, &encoded, &Priority::default(), true);
    assert_eq!(sent, Err(h3::Error::StreamBlocked));
}
