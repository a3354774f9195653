//! Refusals of connections: which clients receive one, and how many. Time is the test's own.

use sluicegate_base::observe::memory_budget::MemoryBudget;
use sluicegate_base::observe::metrics::Label as _;

use super::super::super::counters::RefusalReason;
use super::super::super::refusal::LONGEST;
use super::*;
use crate::testing::{Bench, Client, settings};

/// CONNECTION_REFUSED (RFC 9000 §20.1).
const REFUSED: u64 = 0x2;

/// Lets a new client ask for a connection once, and returns it with what it sent and received.
fn ask(bench: &mut Bench, address: &str) -> (Client, Vec<usize>, Vec<Vec<u8>>) {
    let mut client = Client::new(address);
    let sent = client.speak(&mut bench.endpoint, bench.now);
    let said = bench.said();
    client.hear(said.clone());
    (client, sent, said)
}

fn is_refused(client: &Client) -> bool {
    let error = client.quic.peer_error();
    error.is_some_and(|error| !error.is_app && error.error_code == REFUSED)
}

fn refused(bench: &Bench) -> Vec<u64> {
    let all = RefusalReason::ALL.iter();
    all.map(|reason| bench.endpoint.counters.refused[*reason]).collect()
}

#[test]
fn a_refused_client_receives_connection_refused_at_once() {
    type Case = (RefusalReason, fn(&mut Settings<PageSession>), fn(&mut Bench));
    let cases: [Case; 4] = [
        (RefusalReason::Draining, |_| {}, |bench| bench.endpoint.drain(bench.now)),
        (
            RefusalReason::Worker,
            |s| s.limits.connections_per_worker = 1,
            |bench| drop(bench.connect("192.0.2.9:5000")),
        ),
        (
            RefusalReason::Client,
            |s| s.limits.connections_per_client = 1,
            |bench| drop(bench.connect("192.0.2.1:4999")),
        ),
        (
            RefusalReason::Memory,
            |s| s.shared.memory = Arc::new(MemoryBudget::new(1000)),
            |bench| measured(bench, 1000),
        ),
    ];
    for (reason, change, prepare) in cases {
        let mut bench = Bench::new(settings(change));
        prepare(&mut bench);
        let open = bench.endpoint.len();
        let (client, sent, said) = ask(&mut bench, "192.0.2.1:5000");
        assert!(is_refused(&client), "{reason:?}");
        assert_eq!(said.len(), sent.len());
        assert!(said.iter().all(|packet| packet.len() <= LONGEST));
        assert_eq!(bench.endpoint.counters.refused[reason], sent.len() as u64);
        let counted: u64 = refused(&bench).iter().sum();
        assert_eq!(counted, bench.endpoint.counters.refusals);
        // Nothing is kept of it.
        assert_eq!(bench.endpoint.len(), open);
        assert_eq!(bench.endpoint.holders.len(), open);
        bench.endpoint.check();
    }
}

/// Takes a measurement of memory. The next datagram notices it, however long the worker has slept.
fn measured(bench: &mut Bench, bytes: u64) {
    bench.endpoint.settings.shared.memory.measured(bytes);
}

#[test]
fn while_memory_is_short_connections_go_on_and_no_further_one_begins() {
    let memory = Arc::new(MemoryBudget::new(1000));
    let mut bench = Bench::new(settings(|s| s.shared.memory = memory));
    measured(&mut bench, 999);
    let mut open = bench.connect("192.0.2.1:5000");
    for used in [1000, 950, 901] {
        measured(&mut bench, used);
        assert!(is_refused(&ask(&mut bench, "192.0.2.1:5001").0), "{used}");
        open.quic.send_ack_eliciting().unwrap();
        open.speak(&mut bench.endpoint, bench.now);
        let said = bench.said();
        assert!(!said.is_empty(), "the PING is acknowledged");
        open.hear(said);
    }
    measured(&mut bench, 900);
    bench.connect("192.0.2.1:5001");
    assert!(open.quic.is_established() && !open.quic.is_closed());
}

/// The keys of a Retry's Initial follow from the server's connection ID in the Retry packet.
#[test]
fn log_names_refused_clients_but_none_of_a_shutdown() {
    let lines_left = |bench: &mut Bench| {
        let now = bench.now;
        (0..100).filter(|_| bench.endpoint.may_log(now)).count()
    };
    let mut bench = Bench::new(settings(|s| s.limits.connections_per_worker = 1));
    bench.connect("192.0.2.9:5000");
    let (_, sent, _) = ask(&mut bench, "192.0.2.1:5000");
    assert_eq!(lines_left(&mut bench), 4 - sent.len());
    let mut bench = Bench::new(settings(|_| {}));
    bench.endpoint.drain(bench.now);
    ask(&mut bench, "192.0.2.1:5000");
    assert_eq!(lines_left(&mut bench), 4);
}

#[test]
fn a_client_that_was_asked_to_retry_is_refused_too() {
    let mut bench = Bench::new(settings(|s| s.quic.retry_above = Some(0)));
    let (mut client, _, _) = ask(&mut bench, "192.0.2.1:5000");
    assert!(!is_refused(&client));
    assert!(bench.endpoint.counters.retries > 0);
    bench.endpoint.drain(bench.now);
    client.speak(&mut bench.endpoint, bench.now);
    let said = bench.said();
    client.hear(said);
    assert!(is_refused(&client));
}

#[test]
fn refusals_beyond_the_limit_are_withheld_and_counted() {
    let mut bench = Bench::new(settings(|s| {
        s.limits.connections_per_client = 1;
        s.quic.connection_refusals_per_second = 2;
    }));
    bench.connect("192.0.2.1:4999");
    let mut all = 0;
    for (seconds, sent_by_then) in [(0, 2), (0, 2), (1, 4)] {
        bench.pass(Duration::from_secs(seconds));
        for port in 5000..5005 {
            let (_, sent, _) = ask(&mut bench, &format!("192.0.2.1:{port}"));
            all += sent.len() as u64;
        }
        let counters = &bench.endpoint.counters;
        assert_eq!(counters.refusals, sent_by_then);
        assert_eq!(counters.refused[RefusalReason::Client], all);
        let withheld = dropped(&bench.endpoint, DropReason::RefusalLimit);
        assert_eq!(withheld, all - sent_by_then);
    }
}

/// A client retries after a second if its refusal was lost or withheld.
#[test]
fn a_client_whose_refusal_was_withheld_receives_the_next_one() {
    let mut bench = Bench::new(settings(|s| {
        s.limits.connections_per_client = 1;
        s.quic.connection_refusals_per_second = 1;
    }));
    bench.connect("192.0.2.1:4999");
    assert!(is_refused(&ask(&mut bench, "192.0.2.1:5000").0));
    let (mut client, _, _) = ask(&mut bench, "192.0.2.1:5001");
    assert!(!is_refused(&client));
    bench.pass(Duration::from_secs(2));
    client.quic.on_timeout();
    client.speak(&mut bench.endpoint, bench.now);
    let said = bench.said();
    client.hear(said);
    assert!(is_refused(&client));
}

/// The client sends its Initial again, as it does for any that is lost.
#[test]
fn retries_beyond_the_limit_are_not_made_and_counted() {
    let mut bench = Bench::new(settings(|s| {
        s.quic.retry_above = Some(0);
        s.quic.retries_per_second = 200;
    }));
    let mut all = 0;
    for (round, made_by_then) in [(1, 2), (2, 4)] {
        for port in 5000..5010 {
            let (_, sent, _) = ask(&mut bench, &format!("192.0.2.{round}:{port}"));
            all += sent.len() as u64;
        }
        let counters = &bench.endpoint.counters;
        assert_eq!(counters.retries, made_by_then, "a hundredth of a second's");
        let dropped = dropped(&bench.endpoint, DropReason::RetryLimit);
        assert_eq!(dropped, all - made_by_then);
        bench.pass(Duration::from_millis(10));
    }
    let mut client = Client::new("192.0.2.3:5000");
    for _ in 0..4 {
        client.speak(&mut bench.endpoint, bench.now);
        let said = bench.said();
        client.hear(said);
    }
    assert!(client.quic.is_established());
}

#[test]
fn refusals_share_the_bounded_queue_of_stateless_packets() {
    let mut bench = Bench::new(settings(|s| s.limits.connections_per_client = 1));
    bench.connect("192.0.2.1:4999");
    let mut asked = 0;
    for port in 0..MAX_STATELESS + 3 {
        let mut client = Client::new(&format!("192.0.2.1:{}", 5000 + port));
        asked += client.speak(&mut bench.endpoint, bench.now).len();
    }
    let most = MAX_STATELESS as u64;
    assert_eq!(bench.endpoint.counters.refusals, most);
    let withheld = dropped(&bench.endpoint, DropReason::StatelessFull);
    assert_eq!(withheld, asked as u64 - most);
    assert_eq!(bench.said().len(), MAX_STATELESS);
}

/// A shared address, such as a company's, with more clients than its share. They come within half a second.
#[test]
fn many_clients_behind_one_address_are_served_or_refused_at_once() {
    const CLIENTS: u16 = 500;
    let share = 205;
    let mut bench = Bench::new(settings(|s| s.limits.connections_per_client = share));
    let mut served = Vec::new();
    let mut turned_away = 0;
    for port in 0..CLIENTS {
        bench.pass(Duration::from_millis(1));
        let (mut client, _, _) = ask(&mut bench, &format!("192.0.2.1:{}", 5000 + port));
        if is_refused(&client) {
            turned_away += 1;
            continue;
        }
        client.speak(&mut bench.endpoint, bench.now);
        let said = bench.said();
        client.hear(said);
        assert!(client.quic.is_established(), "client {port}");
        served.push(client);
    }
    assert_eq!(served.len() as u64, share);
    assert_eq!(served.len() + turned_away, usize::from(CLIENTS));
    // Nothing of it reaches a client next door.
    bench.connect("192.0.2.2:5000");
}
