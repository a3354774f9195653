//! Streams that can send no more share packets; at most one stream of a packet goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use quiche::h3;
use sluicegate_test_support::{config, emit, Pair};

/// Largest datagram of these connections, bytes.
const DATAGRAM: usize = 1200;

/// Header and AEAD tag of a short-header packet with a connection ID of 16 bytes, and the room that is too small for
/// another STREAM frame, at most.
const OVERHEAD: usize = 64;

fn connect() -> Pair {
    let (mut client, mut server) = (config(1000), config(1000));
    server.set_max_send_udp_payload_size(DATAGRAM);
    Pair::connect(&mut client, &mut server)
}

/// Sends a request on each of `count` streams and returns their IDs; the server has read them.
fn request(pair: &mut Pair, count: u64) -> Vec<u64> {
    let streams: Vec<u64> = (0..count).map(|n| 4 * n).collect();
    for stream in &streams {
        pair.client.stream_send(*stream, b"?", true).expect("sent");
    }
    pair.settle();
    for stream in &streams {
        let mut request = [0; 8];
        assert_eq!(pair.server.stream_recv(*stream, &mut request), Ok((1, true)));
    }
    streams
}

/// Returns a body that differs from stream to stream.
fn body(stream: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ stream as u8).collect()
}

fn reply(pair: &mut Pair, stream: u64, body: &[u8]) {
    assert_eq!(pair.server.stream_send(stream, body, true), Ok(body.len()));
}

/// Data that the client has read of each stream, and whether the stream has ended.
type Received = BTreeMap<u64, (Vec<u8>, bool)>;

/// Delivers a datagram, and returns the streams that it brought data for.
fn deliver(pair: &mut Pair, datagram: &[u8], received: &mut Received) -> Vec<u64> {
    pair.client_receives(datagram);
    let mut buffer = [0; 65_536];
    let mut streams: Vec<u64> = pair.client.readable().collect();
    streams.sort_unstable();
    for stream in &streams {
        while let Ok((len, fin)) = pair.client.stream_recv(*stream, &mut buffer) {
            let (data, ended) = received.entry(*stream).or_default();
            data.extend_from_slice(&buffer[..len]);
            *ended |= fin;
        }
    }
    streams
}

fn assert_complete(received: &Received, streams: &[u64], len: usize) {
    assert_eq!(received.len(), streams.len());
    for stream in streams {
        let (data, ended) = &received[stream];
        assert!(*ended && *data == body(*stream, len), "stream {stream}");
    }
}

#[test]
fn short_replies_fill_their_packets() {
    for len in [200, 3000] {
        let mut pair = connect();
        let streams = request(&mut pair, 10);
        for stream in &streams {
            reply(&mut pair, *stream, &body(*stream, len));
        }
        let sent = emit(&mut pair.server);
        let (last, full) = sent.split_last().expect("packets");
        let sizes: Vec<usize> = sent.iter().map(Vec::len).collect();
        assert!(!last.is_empty());
        assert!(
            full.iter().all(|datagram| datagram.len() > DATAGRAM - OVERHEAD),
            "{len} bytes a reply: {sizes:?}"
        );
        let mut received = Received::new();
        for datagram in &sent {
            deliver(&mut pair, datagram, &mut received);
        }
        assert_complete(&received, &streams, len);
    }
}

#[test]
fn control_streams_and_the_first_reply_share_a_packet() {
    let mut pair = connect();
    let streams = request(&mut pair, 1);
    let len = 200;
    // Streams of HTTP/3 that stay open: the types of two, and SETTINGS.
    let control: [(u64, &[u8]); 3] = [(3, &[0; 30]), (7, &[2]), (11, &[3])];
    for (stream, data) in control {
        let sent = pair.server.stream_send(stream, data, false);
        assert_eq!(sent, Ok(data.len()));
    }
    reply(&mut pair, streams[0], &body(streams[0], len));
    let sent = emit(&mut pair.server);
    assert_eq!(sent.len(), 1);
    let mut received = Received::new();
    deliver(&mut pair, &sent[0], &mut received);
    for (stream, data) in control {
        assert_eq!(received.remove(&stream), Some((data.to_vec(), false)));
    }
    assert_complete(&received, &streams, len);
}

#[test]
fn a_shared_packet_has_the_most_urgent_stream_first() {
    let mut pair = connect();
    let streams = request(&mut pair, 3);
    let len = 700;
    for (stream, urgency) in streams.iter().zip([42, 10, 20]) {
        pair.server.stream_priority(*stream, urgency, true).expect("set");
        let sent = pair.server.stream_send(*stream, &body(*stream, len), false);
        assert_eq!(sent, Ok(len));
    }
    // The order of the last call counts.
    pair.server.stream_priority(0, 15, true).expect("set");
    let sent = emit(&mut pair.server);
    assert_eq!(sent.len(), 2);
    let mut received = Received::new();
    assert_eq!(deliver(&mut pair, &sent[0], &mut received), [0, 4]);
    assert_eq!(received[&4], (body(4, len), false));
    assert_eq!(deliver(&mut pair, &sent[1], &mut received), [0, 8]);
    assert_eq!(received[&0], (body(0, len), false));
    assert_eq!(received[&8], (body(8, len), false));
}

#[test]
fn at_most_one_stream_of_a_packet_goes_on() {
    let mut pair = connect();
    let streams = request(&mut pair, 3);
    let len = 20_000;
    // In turn, as incremental responses leave.
    for stream in &streams {
        pair.server.stream_priority(*stream, 127, true).expect("set");
        reply(&mut pair, *stream, &body(*stream, len));
    }
    let mut received = Received::new();
    let mut shared = 0;
    for datagram in emit(&mut pair.server) {
        let before: Vec<u64> = { received.iter() }
            .filter(|(_, (_, ended))| *ended)
            .map(|(stream, _)| *stream)
            .collect();
        let streams = deliver(&mut pair, &datagram, &mut received);
        let going_on = streams.iter().filter(|stream| !received[stream].1).count();
        assert!(going_on <= 1, "{streams:?} share a packet and go on");
        assert!(streams.iter().all(|stream| !before.contains(stream)));
        shared += usize::from(streams.len() > 1);
    }
    assert!((1..=2).contains(&shared), "{shared} packets are shared");
    assert_complete(&received, &streams, len);
}

#[test]
fn lost_shared_packet_is_sent_again_for_all_its_streams() {
    let len = 200;
    let mut pair = connect();
    let streams = request(&mut pair, 10);
    for stream in &streams {
        reply(&mut pair, *stream, &body(*stream, len));
    }
    let mut received = Received::new();
    // The first packet is lost, and what follows shows it.
    let sent = emit(&mut pair.server);
    for datagram in &sent[1..] {
        deliver(&mut pair, datagram, &mut received);
    }
    let whole = received.values().filter(|(_, ended)| *ended).count();
    assert!(whole <= streams.len() - 5, "{whole} arrived without it");
    for _ in 0..100 {
        if received.len() == streams.len() && received.values().all(|(_, ended)| *ended) {
            break;
        }
        pair.pass(Duration::from_millis(50));
        for datagram in emit(&mut pair.client) {
            pair.server_receives(&datagram);
        }
        for datagram in emit(&mut pair.server) {
            deliver(&mut pair, &datagram, &mut received);
        }
    }
    assert_complete(&received, &streams, len);
    let again = pair.server.stats().stream_retrans_bytes;
    assert!(again >= 5 * len as u64, "{again} bytes were sent again");
}

#[test]
fn stream_header_that_does_not_fit_waits_for_the_next_packet() {
    // Every length that leaves between nothing and more than a stream header's room in a packet.
    for len in DATAGRAM - OVERHEAD..DATAGRAM {
        let mut pair = connect();
        let streams = request(&mut pair, 2);
        for stream in &streams {
            reply(&mut pair, *stream, &body(*stream, len));
        }
        let mut received = Received::new();
        for datagram in emit(&mut pair.server) {
            deliver(&mut pair, &datagram, &mut received);
        }
        assert_complete(&received, &streams, len);
    }
}

#[test]
fn head_and_body_of_a_reply_leave_together() {
    let mut pair = connect();
    let config = h3::Config::new().expect("config");
    let mut client = h3::Connection::with_transport(&mut pair.client, &config).expect("client");
    let mut server = h3::Connection::with_transport(&mut pair.server, &config).expect("server");
    let request: Vec<h3::Header> =
        [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")]
            .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
            .into();
    for _ in 0..4 {
        client.send_request(&mut pair.client, &request, true).expect("sent");
    }
    pair.settle();
    while server.poll(&mut pair.server).is_ok() {}
    pair.settle();
    let head = [h3::Header::new(b":status", b"200")];
    for stream in [0, 4, 8, 12] {
        server.send_response(&mut pair.server, stream, &head, false).expect("head");
        let body = body(stream, 200);
        let taken = server.send_body(&mut pair.server, stream, &body, true);
        assert_eq!(taken, Ok(body.len()));
    }
    let sent = emit(&mut pair.server);
    assert_eq!(sent.len(), 1, "four heads and bodies fit into a packet");
    pair.client_receives(&sent[0]);
    let mut finished = 0;
    let mut buffer = [0; 1024];
    loop {
        match client.poll(&mut pair.client) {
            Ok((stream, h3::Event::Data)) => {
                let read = client.recv_body(&mut pair.client, stream, &mut buffer);
                assert_eq!(read, Ok(200));
                assert_eq!(buffer[..200], body(stream, 200));
            }
            Ok((_, h3::Event::Finished)) => finished += 1,
            Ok(_) => {}
            Err(h3::Error::Done) => break,
            Err(error) => panic!("poll: {error}"),
        }
    }
    assert_eq!(finished, 4);
}
