//! Connections without requests at a worker that has as many as it may, and newcomers. Time is the test's own.

use sluicegate_base::clients::{FIRST_REQUEST, NEXT_REQUEST};
use sluicegate_raw_client::Setup;

use crate::counters::RefusalReason;
use crate::testing::{Attack, Peer};

/// CONNECTION_REFUSED (RFC 9000 §20.1).
const REFUSED: Option<(bool, u64)> = Some((false, 0x2));
/// Connections of the worker.
const CONNECTIONS: u8 = 4;

fn with_limit() -> Attack {
    Attack::new(|settings| {
        settings.limits.connections_per_worker = CONNECTIONS.into();
        settings.quic.retry_above = Some(1000);
    })
}

/// Connects from an address of its own, by its number.
fn newcomer(attack: &mut Attack, number: u8) -> Peer {
    let address = format!("198.51.100.{number}:5000");
    let peer = attack.connect(&address, Setup::new(number.into()));
    attack.endpoint().check();
    peer
}

fn displaced(attack: &Attack) -> u64 {
    let counters = &attack.endpoint().counters;
    assert_eq!(counters.refused[RefusalReason::Worker], 0);
    counters.idle_displaced
}

#[test]
fn silent_connections_give_way_to_newcomers_before_idle_ones() {
    let mut attack = with_limit();
    let mut idle = newcomer(&mut attack, 1);
    attack.check_honest(&mut idle);
    for number in [2, 3] {
        newcomer(&mut attack, number);
    }
    let mut honest = newcomer(&mut attack, 4);
    attack.check_honest(&mut honest);
    attack.pass(FIRST_REQUEST, &mut honest);
    let newcomers = [5, 6].map(|number| newcomer(&mut attack, number));
    assert_eq!(displaced(&attack), 2);
    assert!(newcomers.iter().all(|peer| peer.client.is_established()));
    attack.check_honest(&mut idle);
    attack.check_honest(&mut honest);
    // The first requests of the newcomers may be on their way.
    newcomer(&mut attack, 7);
    assert_eq!(displaced(&attack), 3);
    attack.check_honest(&mut honest);
    assert_eq!(attack.endpoint().len(), usize::from(CONNECTIONS));
}

#[test]
fn connections_with_open_requests_and_young_ones_give_way_to_nobody() {
    let mut attack = with_limit();
    let mut busy = newcomer(&mut attack, 1);
    busy.client.policy.acks = false;
    attack.ask(&mut busy, 0, 10_000_000);
    let mut honest = newcomer(&mut attack, 2);
    attack.pass(FIRST_REQUEST, &mut honest);
    attack.ask(&mut honest, 0, 100);
    attack.exchange(&mut honest);
    for number in [3, 4] {
        newcomer(&mut attack, number);
    }
    let mut late = Peer::new("198.51.100.5:5000", Setup::new(5));
    attack.exchange(&mut late);
    assert_eq!(late.client.closed(), REFUSED);
    let counters = &attack.endpoint().counters;
    let refused = counters.refused[RefusalReason::Worker];
    assert_eq!((refused, counters.idle_displaced), (1, 0));
    attack.pass(NEXT_REQUEST, &mut busy);
    let newcomer = attack.connect("198.51.100.6:5000", Setup::new(6));
    assert!(newcomer.client.is_established());
    assert_eq!(attack.endpoint().counters.idle_displaced, 1);
}
