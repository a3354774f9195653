//! What connections with real sessions wait for.

use std::sync::Arc;

use sluicegate_base::observe::account::Wait;
use sluicegate_base::observe::memory_budget::MemoryBudget;
use sluicegate_http::exchange::accounts::Accounts;
use sluicegate_http::exchange::ring::rings;
use sluicegate_raw_client::Setup;

use super::*;

/// Checks that the only connection spends nearly all of a while on one wait, whose client reads nothing.
fn check(bench: &mut Bench<Http3Session>, client: &mut Client, cause: Wait) {
    let spent = |bench: &Bench<Http3Session>| {
        let account = bench.endpoint.accounts().next().unwrap();
        account.spent(bench.now).find(|(wait, _)| *wait == cause).unwrap().1
    };
    let (before, begun) = (spent(bench), bench.now);
    bench.talk(client, Duration::from_secs(20), Duration::from_millis(100));
    let (more, all) = (spent(bench) - before, bench.now - begun);
    assert!(more >= all.mul_f64(0.95), "{cause:?}: {more:?} of {all:?}");
}

#[test]
fn session_tells_streams_handlers_and_clients_apart() {
    let mut settings = with_routes(&format!("{PROXY}{BYTES}"));
    let (origin_ring, _worker_ring) = rings(64, Accounts::new(1 << 20, u64::MAX));
    settings.shared.origin_ring = Some(origin_ring);
    let mut bench = Bench::new(settings);
    let client = bench.connect_client(Client::with_window("192.0.2.1:5000", 1000));
    let (mut client, mut h3) = bench.with_session(client);
    check(&mut bench, &mut client, Wait::Client);
    client.request(&mut h3, "GET", "/app/x");
    check(&mut bench, &mut client, Wait::Application);
    client.request(&mut h3, "GET", "/bytes/100000");
    check(&mut bench, &mut client, Wait::StreamFlow);
}

/// As much is held for the client as may be, behind a byte that it never acknowledges.
#[test]
fn withheld_acknowledgement_is_what_a_download_waits_for() {
    let mut attack = attack(|settings| {
        settings.shared.memory = Arc::new(MemoryBudget::new(64 << 20));
    });
    let mut peer = attack.connect(PEER, Setup::new(1));
    peer.client.withheld = Some(1000);
    attack.ask(&mut peer, 0, 8 << 20);
    for _ in 0..1000 {
        attack.pass(Duration::from_millis(5), &mut peer);
    }
    let account = attack.endpoint().accounts().next().unwrap();
    let all: Vec<_> = account.spent(attack.now).collect();
    let of = |wait| all.iter().find(|(other, _)| *other == wait).unwrap().1;
    // What counts as lost waits for the window now and then.
    let [missing, window] = [Wait::Acknowledgement, Wait::Congestion].map(of);
    assert!(missing > Duration::from_secs(1), "{all:?}");
    assert!(missing + window >= Duration::from_millis(4900), "{all:?}");
}
