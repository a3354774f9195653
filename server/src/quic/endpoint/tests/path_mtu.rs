//! Datagram sizes over paths of several MTUs, as the server is configured by default.

use super::super::super::transport::{Alternatives, Identity, server_config};
use super::fixture::{Bench, Client, settings};
use super::*;
use crate::http::route::Site;

/// Body of the response, bytes.
const LENGTH: usize = 400_000;

/// Downloads over a path that carries datagrams of up to `limit` bytes, which depends on the server's connection and on the
/// bytes received so far. Returns the largest datagram that arrived, and the time that the download took.
fn download(mut limit: impl FnMut(&quiche::Connection, usize) -> usize) -> (usize, Duration) {
    let mut bench = Bench::new(settings(|settings| {
        let config = sluicegate_config::Config::embedded();
        let identity = Identity::self_signed().unwrap();
        let (quic, limits) = (&settings.quic, &settings.limits);
        let transport = server_config(
            (&identity, &Alternatives::default()),
            quic,
            limits,
            &settings.secrets,
        );
        let listener = settings.listeners.get_mut(&ListenerId(0));
        listener.unwrap().config = transport.unwrap();
        settings.sessions.site = Arc::new(Site::compile(&config.routes, limits).unwrap());
    }));
    let mut client = Client::new("192.0.2.1:5000");
    while !client.quic.is_established() {
        client.speak(&mut bench.endpoint, bench.now);
        let mut said = bench.said();
        let most = limit(served(&bench), 0);
        said.retain(|datagram| datagram.len() <= most);
        client.hear(said);
    }
    let plain = quiche::h3::Config::new().unwrap();
    let mut h3 = quiche::h3::Connection::with_transport(&mut client.quic, &plain).unwrap();
    let path = format!("/bytes/{LENGTH}");
    let head = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", &path),
    ];
    let head = head.map(|(name, value)| quiche::h3::Header::new(name.as_bytes(), value.as_bytes()));
    h3.send_request(&mut client.quic, &head, true).unwrap();
    let began = bench.now;
    let (mut received, mut largest, mut rounds) = (0, 0, 0);
    let mut buffer = [0; 4096];
    while received < LENGTH {
        rounds += 1;
        assert!(rounds < 2000, "{received} of {LENGTH} bytes");
        client.speak(&mut bench.endpoint, bench.now);
        let mut said = bench.pass(Duration::from_millis(20));
        let most = limit(served(&bench), received);
        said.retain(|datagram| datagram.len() <= most);
        largest = said.iter().map(Vec::len).max().unwrap_or(0).max(largest);
        client.hear(said);
        while let Ok((stream, event)) = h3.poll(&mut client.quic) {
            if event == quiche::h3::Event::Data {
                while let Ok(count) = h3.recv_body(&mut client.quic, stream, &mut buffer) {
                    received += count;
                }
            }
        }
    }
    (largest, bench.now - began)
}

/// Returns the server's side of the only connection.
fn served(bench: &Bench) -> &quiche::Connection {
    let connection = bench.endpoint.connections[0].as_ref();
    &connection.expect("the connection ended").quic
}

#[test]
fn path_of_1500_bytes_is_used_in_full() {
    assert_eq!(download(|_, _| 1472).0, 1472);
}

#[test]
fn download_over_a_path_of_1280_bytes_finishes() {
    let (largest, _) = download(|_, _| 1252);
    assert!((1200..=1252).contains(&largest), "{largest}");
}

#[test]
fn download_survives_a_path_that_becomes_narrower() {
    let limit = |_: &_, received| if received < LENGTH / 4 { 1472 } else { 1252 };
    assert_eq!(download(limit).0, 1472);
}

#[test]
fn download_survives_a_path_that_becomes_narrower_during_the_search() {
    let mut narrowed = false;
    let (largest, time) = download(|quic, _| {
        let size = quic.path_stats().next().map_or(0, |path| path.pmtu);
        narrowed |= quic.pmtu().is_none() && size > 1252;
        if narrowed { 1252 } else { 1400 }
    });
    assert!(narrowed && largest > 1252, "{largest}");
    assert!(time < Duration::from_secs(10), "{time:?}");
}
