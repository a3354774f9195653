//! Datagram sizes over paths of several MTUs, as the server is configured by default.

use sluicegate_base::tls::{Alternatives, Identity, ListenerTls};

use super::super::super::transport::server_config;
use super::*;
use crate::testing::{Bench, Client, settings};
use sluicegate_dataplane::Payloads;

/// Body of the response, bytes.
const LENGTH: usize = 400_000;

/// Returns an endpoint with the embedded default's limits, after `change`.
fn bench(change: impl FnOnce(&mut Settings<PageSession>)) -> Bench {
    Bench::new(settings(|settings| {
        change(settings);
        let identity = Identity::self_signed().unwrap();
        let tls = ListenerTls {
            listener: "main",
            secrets: &settings.secrets,
            quic: &settings.quic,
            limits: &settings.limits,
        };
        let transport = server_config::<PageSession>(&tls, &identity, &Alternatives::default());
        let listener = settings.listeners.get_mut(&ListenerId(0));
        listener.unwrap().config = transport.unwrap();
    }))
}

/// Downloads over a path that carries datagrams of up to `limit` bytes, which depends on the server's connection and on the
/// bytes received so far. Returns the largest datagram that arrived, and the time that the download took.
fn download(mut limit: impl FnMut(&quiche::Connection, usize) -> usize) -> (usize, Duration) {
    let mut bench = bench(|_| {});
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
    let head =
        [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", &path)];
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
    let connection = bench.endpoint.connections.get(0);
    connection.expect("the connection ended").quic()
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

#[test]
fn no_datagram_is_larger_than_the_interface_carries() {
    for (address, carried, configured, largest) in [
        ("192.0.2.2", 1252, 1472, 1252),
        ("192.0.2.2", 8972, 1472, 1472),
        ("192.0.2.2", 8972, 9000, 8972),
        ("192.0.2.2", 1252, 1200, 1200),
        // On no interface when the listener was opened.
        ("192.0.2.3", 1252, 1472, 1252),
    ] {
        let mut bench = bench(|settings| {
            settings.quic.max_udp_payload = configured;
            let listener = settings.listeners.get_mut(&ListenerId(0)).unwrap();
            listener.payloads = Payloads::from_iter([(address.parse().unwrap(), carried)]);
        });
        let mut clients = [bench.connect("192.0.2.1:5000")];
        let found = search(&mut bench, &mut clients, usize::MAX);
        assert_eq!(found, [Some(largest)]);
    }
}

/// Lets two seconds pass in which the host refuses datagrams of more than `limit` bytes to the first client. Returns the
/// sizes that were found for the connections.
fn search(bench: &mut Bench, clients: &mut [Client], limit: usize) -> Vec<Option<usize>> {
    let refused = clients[0].meta.peer;
    for _ in 0..100 {
        let mut out = SentDatagrams::new(Budget::UNLIMITED);
        bench.now += Duration::from_millis(20);
        quiche::clock::set(Some(bench.now));
        bench.endpoint.on_deadline(1000, bench.now);
        bench.endpoint.service(1000, bench.now);
        bench.endpoint.emit(&mut out, 1000, bench.now);
        for (listener, meta, bytes) in out.datagrams {
            if meta.peer == refused && bytes.len() > limit {
                let endpoint = &mut bench.endpoint;
                endpoint.on_too_big(listener, meta.peer, bytes.len());
                continue;
            }
            if let Some(client) = clients.iter_mut().find(|c| c.meta.peer == meta.peer) {
                client.hear(vec![bytes]);
            }
        }
        for client in &mut *clients {
            client.speak(&mut bench.endpoint, bench.now);
        }
    }
    let connections = bench.endpoint.connections.iter();
    connections.map(|c| c.quic().pmtu()).collect()
}

#[test]
fn a_datagram_that_the_host_refuses_lowers_the_size_for_its_peer() {
    let mut bench = bench(|_| {});
    let mut clients = ["192.0.2.1:5000", "192.0.2.1:5001"].map(|a| bench.connect(a));
    let found = search(&mut bench, &mut clients, usize::MAX);
    assert_eq!(found, [Some(1472); 2]);
    let peer = clients[0].meta.peer;
    bench.endpoint.on_too_big(ListenerId(1), peer, 1472);
    assert_eq!(served(&bench).pmtu(), Some(1472), "another listener's");
    bench.endpoint.on_too_big(ListenerId(0), peer, 1472);
    assert!(!served(&bench).is_pmtu_raised());
    assert_eq!(served(&bench).max_send_udp_payload_size(), 1200);
    let found = search(&mut bench, &mut clients, 1300);
    assert_eq!(found, [Some(1300), Some(1472)]);
    // Every path carries these, whatever the host says.
    bench.endpoint.on_too_big(ListenerId(0), peer, 1200);
    assert_eq!(served(&bench).pmtu(), Some(1300));
}

#[test]
fn a_client_that_has_moved_is_found_at_its_new_address() {
    let [old, new]: [SocketAddr; 2] =
        ["192.0.2.1:5000", "192.0.2.1:5001"].map(|a| a.parse().unwrap());
    let mut bench = bench(|_| {});
    let mut client = bench.connect("192.0.2.1:5000");
    let spare = quiche::ConnectionId::from_ref(&[8; 16]);
    client.quic.new_scid(&spare, 7, false).unwrap();
    // A NAT gives it another port, of which it does not know.
    for port in [old.port(), new.port()] {
        client.quic.send_ack_eliciting().unwrap();
        for _ in 0..100 {
            client.meta.peer.set_port(port);
            client.speak(&mut bench.endpoint, bench.now);
            client.meta.peer.set_port(old.port());
            let said = bench.pass(Duration::from_millis(20));
            client.hear(said);
        }
        assert_eq!(served(&bench).pmtu(), Some(1472));
    }
    bench.endpoint.on_too_big(ListenerId(0), old, 1472);
    assert_eq!(served(&bench).pmtu(), Some(1472));
    bench.endpoint.on_too_big(ListenerId(0), new, 1472);
    assert!(!served(&bench).is_pmtu_raised());
}

#[test]
fn without_a_search_a_refused_datagram_leads_to_the_size_of_every_path() {
    let mut bench = bench(|settings| settings.quic.path_mtu_discovery = false);
    let client = bench.connect("192.0.2.1:5000");
    assert_eq!(served(&bench).max_send_udp_payload_size(), 1472);
    bench.endpoint.on_too_big(ListenerId(0), client.meta.peer, 1472);
    assert_eq!(served(&bench).max_send_udp_payload_size(), 1200);
}

/// Forges a report about a datagram to the client.
fn report(bench: &mut Bench, peer: SocketAddr, size: usize, quote: &[u8]) {
    let now = bench.now;
    bench.endpoint.on_too_big_report(ListenerId(0), peer, size, quote, now);
}

#[test]
fn a_forged_report_costs_a_round_trip_with_small_datagrams_once_a_minute() {
    let mut bench = bench(|_| {});
    let mut clients = [bench.connect("192.0.2.1:5000")];
    let peer = clients[0].meta.peer;
    assert_eq!(search(&mut bench, &mut clients, usize::MAX), [Some(1472)]);
    let dcid = served(&bench).destination_id().to_vec();
    let mut other = dcid.clone();
    other[0] ^= 1;
    let elsewhere = "192.0.2.1:5001".parse().unwrap();
    for (peer, size, quote) in [
        (elsewhere, 1472, &[][..]),
        (peer, 1473, &[]),
        (peer, 1200, &[]),
        (peer, 1472, &[&[0x40], &other[..]].concat()),
    ] {
        report(&mut bench, peer, size, quote);
        assert_eq!(served(&bench).pmtu(), Some(1472), "{peer} {size} {quote:?}");
    }
    report(&mut bench, peer, 1472, &[&[0x40], &dcid[..]].concat());
    assert_eq!(served(&bench).max_send_udp_payload_size(), 1200);
    assert_eq!(search(&mut bench, &mut clients, usize::MAX), [Some(1472)]);
    report(&mut bench, peer, 1472, &[]);
    assert_eq!(served(&bench).pmtu(), Some(1472), "within a minute");
    bench.now += Duration::from_secs(60);
    report(&mut bench, peer, 1472, &[]);
    assert_eq!(served(&bench).max_send_udp_payload_size(), 1200);
}

#[test]
fn a_true_report_leads_to_what_the_path_carries_and_later_to_more() {
    let mut bench = bench(|_| {});
    let mut clients = [bench.connect("192.0.2.1:5000")];
    let peer = clients[0].meta.peer;
    assert_eq!(search(&mut bench, &mut clients, usize::MAX), [Some(1472)]);
    report(&mut bench, peer, 1472, &[]);
    let found = search(&mut bench, &mut clients, 1300);
    assert_eq!(found, [Some(1300)]);
    // The client is heard every 20 seconds, and the connection is a few seconds old.
    for seconds in (0..=600).step_by(20) {
        clients[0].quic.send_ack_eliciting().unwrap();
        let found = search(&mut bench, &mut clients, usize::MAX);
        let expected = if seconds < 600 { 1300 } else { 1472 };
        assert_eq!(found, [Some(expected)], "after {seconds} s");
        bench.now += Duration::from_secs(18);
    }
}
