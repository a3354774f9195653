//! What connections wait for, where the cause is known. Time is the test's own.

use sluicegate_base::observe::account::Wait;
use sluicegate_sim::Rng;

use super::draining::head;
use super::*;
use crate::testing::{Bench, Client, FullSocket};

/// Length of a test.
const LONG: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(100);

/// Checks that the only connection has spent nearly all of its time on one wait, and that all its time is accounted for.
fn check(bench: &Bench, cause: Wait) {
    let account = bench.endpoint.accounts().next().unwrap();
    let all: Vec<_> = account.spent(bench.now).collect();
    let age: Duration = all.iter().map(|(_, spent)| *spent).sum();
    assert_eq!(age, bench.now - bench.start);
    let spent = all.iter().find(|(wait, _)| *wait == cause).unwrap().1;
    assert!(spent >= age.mul_f64(0.95), "{cause:?}: {all:?}");
}

/// Returns a client with a session, in a bench that begins now.
fn connected(window: u64) -> (Bench, Client, quiche::h3::Connection) {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let client = bench.connect_client(Client::with_window("192.0.2.1:5000", window));
    let (client, h3) = bench.with_session(client);
    (bench, client, h3)
}

#[test]
fn connection_without_requests_waits_for_its_client() {
    let (mut bench, mut client, _h3) = connected(1 << 16);
    bench.talk(&mut client, LONG, STEP);
    check(&bench, Wait::Client);
}

#[test]
fn request_that_its_handler_has_waits_for_the_application() {
    let (mut bench, mut client, mut h3) = connected(1 << 16);
    client.request(&mut h3, "GET", "/app/x");
    bench.talk(&mut client, LONG, STEP);
    check(&bench, Wait::Application);
}

#[test]
fn small_window_of_a_stream_is_the_streams_flow_control() {
    let (mut bench, mut client, mut h3) = connected(1000);
    client.request(&mut h3, "GET", "/bytes/1000000");
    bench.talk(&mut client, LONG, STEP);
    check(&bench, Wait::StreamFlow);
}

#[test]
fn small_window_of_the_connection_is_the_connections_flow_control() {
    let (mut bench, mut client, mut h3) = connected(100_000);
    for _ in 0..2 {
        h3.send_request(&mut client.quic, &head(100_000), true).unwrap();
    }
    bench.talk(&mut client, LONG, STEP);
    check(&bench, Wait::ConnectionFlow);
}

#[test]
fn full_congestion_window_is_congestion_control() {
    let (mut bench, mut client, mut h3) = connected(100_000);
    client.request(&mut h3, "GET", "/bytes/90000");
    client.speak(&mut bench.endpoint, bench.now);
    // Nothing that the server sends arrives any more.
    bench.pass(LONG);
    check(&bench, Wait::Congestion);
}

/// The server repeats its flight until it has sent three times what came.
#[test]
fn unfinished_handshake_is_the_handshake_and_then_the_proof_of_the_address() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    Client::new("192.0.2.1:5000").speak(&mut bench.endpoint, bench.now);
    bench.pass(STEP);
    check(&bench, Wait::Handshake);
    bench.pass(bench.endpoint.settings.limits.handshake_timeout - 2 * STEP);
    let account = bench.endpoint.accounts().next().unwrap();
    assert_eq!(account.wait().0, Wait::Amplification);
    let spent: Vec<_> = account.spent(bench.now).filter(|(_, time)| !time.is_zero()).collect();
    assert_eq!(spent.len(), 2, "{spent:?}");
}

/// The response is one packet, which is lost again and again.
#[test]
fn lost_response_is_the_missing_acknowledgement() {
    let (mut bench, mut client, mut h3) = connected(100_000);
    client.request(&mut h3, "GET", "/bytes/500");
    client.speak(&mut bench.endpoint, bench.now);
    bench.pass(LONG);
    check(&bench, Wait::Acknowledgement);
}

#[test]
fn datagram_that_waits_for_its_turn_is_scheduling() {
    let (mut bench, mut client, mut h3) = connected(100_000);
    client.request(&mut h3, "GET", "/bytes/1000");
    client.speak(&mut bench.endpoint, bench.now);
    bench.now += LONG;
    quiche::clock::set(Some(bench.now));
    let said = bench.said();
    check(&bench, Wait::Scheduling);
    client.hear(said);
    bench.talk(&mut client, 40 * LONG, STEP);
    check(&bench, Wait::Client);
}

/// Requests come at once after each other, and the worker gets to each of them late: its turns are those of a busy one.
#[test]
fn busy_worker_is_scheduling_from_every_seed() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let (mut bench, mut client, mut h3) = connected(100_000);
        for _ in 0..40 {
            client.request(&mut h3, "GET", "/bytes/100");
            client.speak(&mut bench.endpoint, bench.now);
            bench.now += Duration::from_micros(2_000 + rng.below(100_000) as u64);
            quiche::clock::set(Some(bench.now));
            bench.endpoint.on_deadline(1000, bench.now);
            let said = bench.said();
            client.hear(said);
        }
        check(&bench, Wait::Scheduling);
    }
}

#[test]
fn closed_connection_is_closing_until_it_is_forgotten() {
    let (mut bench, _client, _h3) = connected(100_000);
    bench.endpoint.close_all(bench.now);
    bench.said();
    let account = bench.endpoint.accounts().next().unwrap();
    assert_eq!(account.wait().0, Wait::Closing);
}

#[test]
fn full_socket_is_scheduling() {
    let (mut bench, mut client, mut h3) = connected(100_000);
    client.request(&mut h3, "GET", "/bytes/1000");
    client.speak(&mut bench.endpoint, bench.now);
    bench.endpoint.service(1000, bench.now);
    bench.endpoint.emit(&mut FullSocket, 1000, bench.now);
    bench.now += LONG;
    check(&bench, Wait::Scheduling);
    // With room it goes on.
    quiche::clock::set(Some(bench.now));
    let said = bench.said();
    client.hear(said);
    bench.talk(&mut client, 40 * LONG, STEP);
    check(&bench, Wait::Client);
}
