//! When a drain closes connections.

use super::bench::{Bench, Client, settings};
use super::*;
use crate::route::Site;

/// Of a response, in bytes: more than a packet, less than the first window.
const LENGTH: usize = 9000;

/// A client that has asked for a response of [`LENGTH`], and what the server said to that.
fn asked(bench: &mut Bench) -> (Client, quiche::h3::Connection, Vec<Vec<u8>>) {
    let mut client = bench.connect("192.0.2.1:5000");
    let plain = quiche::h3::Config::new().unwrap();
    let mut h3 = quiche::h3::Connection::with_transport(&mut client.engine, &plain).unwrap();
    let path = format!("/bytes/{LENGTH}");
    let head = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", &path),
    ];
    let head = head.map(|(name, value)| quiche::h3::Header::new(name.as_bytes(), value.as_bytes()));
    h3.send_request(&mut client.engine, &head, true).unwrap();
    client.speak(&mut bench.endpoint, bench.now);
    let said = bench.said();
    assert!(said.iter().map(Vec::len).sum::<usize>() > LENGTH);
    (client, h3, said)
}

/// What arrived of the body, and whether it ended.
fn body(client: &mut Client, h3: &mut quiche::h3::Connection) -> (usize, bool) {
    let (mut length, mut over) = (0, false);
    let mut buffer = [0; LENGTH];
    while let Ok((stream, event)) = h3.poll(&mut client.engine) {
        match event {
            quiche::h3::Event::Data => {
                while let Ok(count) = h3.recv_body(&mut client.engine, stream, &mut buffer) {
                    length += count;
                }
            }
            quiche::h3::Event::Finished => over = true,
            _ => {}
        }
    }
    (length, over)
}

fn bench() -> Bench {
    Bench::new(settings(|settings| {
        let config = sluicegate_config::Config::embedded();
        let site = Site::compile(&config.routes, &config.limits);
        settings.site = Arc::new(site.unwrap());
    }))
}

/// A moment in which nothing is in flight: losses were noticed, and nothing was sent again yet.
#[test]
fn what_was_lost_is_sent_again_first() {
    let mut bench = bench();
    let (mut client, mut h3, mut said) = asked(&mut bench);
    bench.endpoint.drain();
    said.extend(bench.said());
    // All but one from the middle.
    said.remove(2);
    client.hear(said);
    client.speak(&mut bench.endpoint, bench.now);
    let connection = bench.endpoint.connections[0].as_ref().unwrap();
    assert!(connection.engine.has_unacked());
    bench.endpoint.close_idle(false, bench.now);
    for _ in 0..10 {
        let said = bench.said();
        client.hear(said);
        client.speak(&mut bench.endpoint, bench.now);
    }
    assert_eq!(body(&mut client, &mut h3), (LENGTH, true));
    assert!(client.engine.peer_error().is_none());
}

/// A client's stack has it, but who knows whether anybody has read it.
#[test]
fn a_client_has_time_to_read_its_last_response() {
    let mut bench = bench();
    let (mut client, mut h3, said) = asked(&mut bench);
    bench.endpoint.drain();
    client.hear(said);
    client.speak(&mut bench.endpoint, bench.now);
    let step = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    while client.engine.peer_error().is_none() {
        assert!(waited < Duration::from_secs(5), "never closed");
        waited += step;
        let mut said = bench.pass(step);
        bench.endpoint.close_idle(false, bench.now);
        said.extend(bench.said());
        client.hear(said);
        client.speak(&mut bench.endpoint, bench.now);
    }
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    let error = client.engine.peer_error().unwrap();
    assert_eq!((error.is_app, error.error_code), (true, 0x100));
    assert_eq!(body(&mut client, &mut h3), (LENGTH, true));
}

#[test]
fn who_asked_nothing_for_a_while_is_closed_at_once() {
    for asks in [false, true] {
        let mut bench = bench();
        let mut client = if asks {
            let (mut client, _, said) = asked(&mut bench);
            client.hear(said);
            client
        } else {
            bench.connect("192.0.2.1:5000")
        };
        client.speak(&mut bench.endpoint, bench.now);
        let said = bench.pass(Duration::from_secs(2));
        client.hear(said);
        bench.endpoint.drain();
        // GOAWAY is to arrive.
        let said = bench.said();
        client.hear(said);
        client.speak(&mut bench.endpoint, bench.now);
        bench.endpoint.close_idle(false, bench.now);
        let said = bench.said();
        client.hear(said);
        assert!(client.engine.peer_error().is_some());
    }
}
