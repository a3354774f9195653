//! Datagram sizes over paths of several MTUs, as the server is configured by default.

use super::super::super::transport::{Alternatives, Identity, server_config};
use super::fixture::{Bench, Client, settings};
use super::*;
use crate::http::route::Site;

/// Body of the response, bytes.
const LENGTH: usize = 400_000;

/// Downloads over a path that carries datagrams of up to `limit` bytes, which depends on the bytes received so far. Returns
/// the largest datagram that arrived.
fn download(limit: impl Fn(usize) -> usize) -> usize {
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
        said.retain(|datagram| datagram.len() <= limit(0));
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
    let (mut received, mut largest, mut rounds) = (0, 0, 0);
    let mut buffer = [0; 4096];
    while received < LENGTH {
        rounds += 1;
        assert!(rounds < 2000, "{received} of {LENGTH} bytes");
        client.speak(&mut bench.endpoint, bench.now);
        let mut said = bench.pass(Duration::from_millis(20));
        said.retain(|datagram| datagram.len() <= limit(received));
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
    largest
}

#[test]
fn a_path_of_1500_bytes_is_used_in_full() {
    assert_eq!(download(|_| 1472), 1472);
}

#[test]
fn a_download_over_a_path_of_1280_bytes_finishes() {
    let largest = download(|_| 1252);
    assert!((1200..=1252).contains(&largest), "{largest}");
}

#[test]
fn a_download_survives_a_path_that_becomes_narrower() {
    let limit = |received| if received < LENGTH / 4 { 1472 } else { 1252 };
    assert_eq!(download(limit), 1472);
}
