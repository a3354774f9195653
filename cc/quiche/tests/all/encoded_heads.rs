//! Heads that are encoded once and sent on many streams, and sections that are left encoded when they arrive.

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

/// Returns both sides of HTTP/3.
fn sides(pair: &mut Pair) -> (h3::Connection, h3::Connection) {
    let config = h3::Config::new().expect("config");
    let client = h3::Connection::with_transport(&mut pair.client, &config).expect("client");
    let server = h3::Connection::with_transport(&mut pair.server, &config).expect("server");
    (client, server)
}

/// Returns the head of a request for `path`.
fn get(path: &str) -> Vec<Header> {
    lines(&[(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)])
}

/// Returns the heads that have arrived, by their streams.
fn heads(h3: &mut h3::Connection, quic: &mut quiche::Connection) -> Vec<(u64, Vec<Header>)> {
    let mut heads = Vec::new();
    loop {
        match h3.poll(quic) {
            Ok((stream, h3::Event::Headers { list, .. })) => heads.push((stream, list)),
            Ok(_) => {}
            Err(h3::Error::Done) => break,
            Err(error) => panic!("poll: {error}"),
        }
    }
    heads.sort_by_key(|(stream, _)| *stream);
    heads
}

/// Returns both sides of a connection that has `count` requests open.
fn request(pair: &mut Pair, count: usize) -> (h3::Connection, h3::Connection) {
    let (mut client, mut server) = sides(pair);
    let request = get("/");
    for _ in 0..count {
        client.send_request(&mut pair.client, &request, true).expect("sent");
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
    let head = lines(&[(":status", "200"), ("x-name", "some value"), ("etag", "\"1\"")]);
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
    let traced = trace.matches(r#""name":"x-name","value":"<redacted>""#).count();
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

#[test]
fn requests_share_a_head_that_is_encoded_once() {
    let mut pair = Pair::connect(&mut config(1000), &mut config(1000));
    let trace = Trace::default();
    let (title, text) = ("title".to_owned(), "text".to_owned());
    pair.client.set_qlog(Box::new(trace.clone()), title, text);
    let (mut client, mut server) = sides(&mut pair);
    let head = EncodedHeaders::new(&get("/")).expect("encoded");
    for (stream, ends) in [(0, true), (4, false), (8, true)] {
        let sent = client.send_encoded_request(&mut pair.client, &head, ends);
        assert_eq!(sent, Ok(stream));
    }
    let body = client.send_body(&mut pair.client, 4, b"body", true);
    assert_eq!(body, Ok(4));
    // The two kinds of requests follow each other.
    let sent = client.send_request(&mut pair.client, &get("/last"), true);
    assert_eq!(sent, Ok(12));
    pair.settle();
    let expected = [(0, "/"), (4, "/"), (8, "/"), (12, "/last")];
    let expected: Vec<_> = expected.map(|(id, path)| (id, get(path))).into();
    assert_eq!(heads(&mut server, &mut pair.server), expected);

    server.send_goaway(&mut pair.server, 16).expect("sent");
    pair.settle();
    let goaway = client.poll(&mut pair.client);
    assert_eq!(goaway, Ok((16, h3::Event::GoAway)));
    let refused = client.send_encoded_request(&mut pair.client, &head, true);
    assert_eq!(refused, Err(h3::Error::FrameUnexpected));
    let trace = String::from_utf8(trace.0.lock().expect("unpoisoned").clone()).expect("text");
    assert_eq!(trace.matches(r#""name":":authority""#).count(), 4, "{trace}");
}

#[test]
fn a_request_without_room_leaves_nothing_behind() {
    let mut server = config(1000);
    server.set_initial_max_stream_data_bidi_remote(50);
    server.set_initial_max_streams_bidi(1);
    let mut pair = Pair::connect(&mut config(1000), &mut server);
    let (mut client, _) = sides(&mut pair);
    pair.settle();
    let before = client.kept_streams();
    let long = EncodedHeaders::new(&get(&"v".repeat(200))).expect("encoded");
    let short = EncodedHeaders::new(&get("/")).expect("encoded");
    let blocked = client.send_encoded_request(&mut pair.client, &long, true);
    assert_eq!(blocked, Err(h3::Error::StreamBlocked));
    assert_eq!(client.kept_streams(), before);
    // The one stream that the server allows is still unused.
    let sent = client.send_encoded_request(&mut pair.client, &short, true);
    assert_eq!(sent, Ok(0));
    let kept = client.kept_streams();
    let refused = client.send_encoded_request(&mut pair.client, &short, true);
    let limit = h3::Error::TransportError(quiche::Error::StreamLimit);
    assert_eq!(refused, Err(limit));
    assert_eq!(client.kept_streams(), kept);
}

#[test]
fn sections_may_be_left_encoded() {
    for traced in [false, true] {
        let mut pair = Pair::connect(&mut config(1000), &mut config(1000));
        let trace = Trace::default();
        if traced {
            let (title, text) = ("title".to_owned(), "text".to_owned());
            pair.client.set_qlog(Box::new(trace.clone()), title, text);
        }
        let (mut client, mut server) = request(&mut pair, 2);
        client.keep_sections();
        let head = |name| lines(&[(":status", "200"), ("x-name", name)]);
        for (stream, name) in [(0, "first"), (4, "second")] {
            let sent = server.send_response(&mut pair.server, stream, &head(name), true);
            assert_eq!(sent, Ok(()));
        }
        pair.settle();
        let mut seen = Vec::new();
        loop {
            match client.poll(&mut pair.client) {
                Ok((stream, h3::Event::Headers { list, .. })) => {
                    assert_eq!(list.is_empty(), !traced);
                    let fields = client.decode_section(&mut pair.client).expect("decoded");
                    let same = EncodedHeaders::new(&fields).expect("encoded");
                    assert_eq!(client.section().len(), same.section_len());
                    seen.push((stream, fields));
                }
                Ok(_) => {}
                Err(h3::Error::Done) => break,
                Err(error) => panic!("poll: {error}"),
            }
        }
        seen.sort_by_key(|(stream, _)| *stream);
        assert_eq!(seen, [(0, head("first")), (4, head("second"))]);
        let trace = trace.0.lock().expect("unpoisoned").clone();
        let trace = String::from_utf8(trace).expect("text");
        let parsed = trace.matches(r#""name":"x-name""#).count();
        assert_eq!(parsed, if traced { 2 } else { 0 }, "{trace}");
    }
}

#[test]
fn a_broken_section_closes_the_connection_when_it_is_decoded() {
    let mut pair = Pair::connect(&mut config(1000), &mut config(1000));
    let (mut client, _) = request(&mut pair, 1);
    client.keep_sections();
    // A HEADERS frame whose only field refers to a dynamic table (RFC 9204 §4.5.2).
    let frame = [1, 3, 0, 0, 0x80];
    assert_eq!(pair.server.stream_send(0, &frame, true), Ok(5));
    pair.settle();
    let event = client.poll(&mut pair.client);
    assert!(matches!(event, Ok((0, h3::Event::Headers { .. }))), "{event:?}");
    assert_eq!(client.section(), &frame[2..]);
    let decoded = client.decode_section(&mut pair.client);
    assert_eq!(decoded, Err(h3::Error::QpackDecompressionFailed));
    let closed = pair.client.local_error().map(|error| error.error_code);
    // QPACK_DECOMPRESSION_FAILED (RFC 9204 §6)
    assert_eq!(closed, Some(0x200));
}
