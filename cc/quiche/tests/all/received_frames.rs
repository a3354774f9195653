//! The number of HTTP/3 frames that a peer has sent.

use quiche::h3;
use sluicegate_test_support::{config, Pair};

#[test]
fn every_frame_counts_once_whatever_is_in_it() {
    let mut pair = Pair::connect(&mut config(1000), &mut config(1000));
    let config = h3::Config::new().expect("config");
    let mut client = h3::Connection::with_transport(&mut pair.client, &config).expect("client");
    let mut server = h3::Connection::with_transport(&mut pair.server, &config).expect("server");
    let head = [(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
    let head = head.map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()));
    let stream = client.send_request(&mut pair.client, &head, false).expect("sent");
    let mut count = |pair: &mut Pair| {
        pair.settle();
        while let Ok((stream, event)) = server.poll(&mut pair.server) {
            if event == h3::Event::Data {
                while server.recv_body(&mut pair.server, stream, &mut [0; 64]).is_ok() {}
            }
        }
        server.received_frames()
    };
    // SETTINGS, the head, and frames of reserved types.
    let before = count(&mut pair);
    assert!(before >= 2);
    let parts: [(&[u8], u64); 6] = [
        (b"\x00\x01a\x00\x02bc", 2),
        (b"\x00\x00", 1),
        // A reserved type of two bytes, which arrive one by one.
        (b"\x40", 0),
        (b"\x21\x00", 1),
        (b"\x21\x03abc\x00", 2),
        (b"\x01a", 0),
    ];
    let mut expected = before;
    for (part, frames) in parts {
        pair.client.stream_send(stream, part, false).expect("sent");
        expected += frames;
        assert_eq!(count(&mut pair), expected, "{part:?}");
    }
}
