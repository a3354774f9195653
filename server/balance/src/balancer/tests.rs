//! Datagrams of clients, servers that come and go, and any sequence of both.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use proptest::prelude::*;
use sluicegate_base::clock;
use sluicegate_cid::{KEY_LEN, Lengths, QuicLb, SelfLength};

use super::*;
use crate::settings::{HealthSettings, ServerSettings};

const KEY: [u8; KEY_LEN] = *b"0123456789abcdef";
/// Every scheme: plaintext, one block, four passes.
const SCHEMES: [(Lengths, Option<&[u8; KEY_LEN]>); 3] = [
    (Lengths { server_id: 3, nonce: 4 }, None),
    (Lengths { server_id: 8, nonce: 8 }, Some(&KEY)),
    (Lengths { server_id: 5, nonce: 7 }, Some(&KEY)),
];
const IDLE: Duration = Duration::from_secs(60);

fn server_id(number: u8, length: usize) -> Vec<u8> {
    let mut id = vec![0xa5; length];
    id[length - 1] = number;
    id
}

fn address(number: u8) -> SocketAddr {
    (Ipv4Addr::new(192, 0, 2, number), 443).into()
}

fn server(number: u8, drain: bool) -> ServerSettings {
    let ids = SCHEMES.map(|(lengths, _)| server_id(number, lengths.server_id));
    let name = format!("s{number}");
    ServerSettings { name, address: address(number), ids: ids.to_vec(), health: None, drain }
}

fn schemes() -> Vec<QuicLb> {
    let made = (0..).zip(SCHEMES);
    made.map(|(config, (lengths, key))| QuicLb::new(config, lengths, key).unwrap()).collect()
}

fn settings(servers: Vec<ServerSettings>, max_flows: usize) -> BalancerSettings {
    let (second, health) = (Duration::from_secs(1), 1);
    let health = HealthSettings { interval: second, timeout: second, rises: health, falls: health };
    BalancerSettings {
        servers,
        ids: schemes(),
        idle_timeout: IDLE,
        max_flows,
        new_flows_per_second: 100_000,
        health,
    }
}

fn three() -> Vec<ServerSettings> {
    (1..4).map(|number| server(number, false)).collect()
}

fn tuple(port: u16) -> Tuple {
    let client = (Ipv4Addr::new(198, 51, 100, 7), port).into();
    Tuple { client, local: (Ipv4Addr::new(203, 0, 113, 1), 443).into() }
}

/// Returns an ID of a server under a scheme, with something behind the routing part.
fn id(scheme: usize, number: u8, nonce: u8) -> Vec<u8> {
    let mut format = schemes().remove(scheme);
    let mut id = vec![0xee; 20];
    let (lengths, _) = SCHEMES[scheme];
    let (server, nonce) = (server_id(number, lengths.server_id), vec![nonce; lengths.nonce]);
    format.encode(SelfLength::Of(20), &server, &nonce, &mut id).unwrap();
    id
}

fn short(id: &[u8]) -> Vec<u8> {
    [&[0x41], id, &[7; 30]].concat()
}

fn long(id: &[u8]) -> Vec<u8> {
    let length = u8::try_from(id.len()).unwrap();
    [&[0xc3, 0, 0, 0, 1, length], id, &[7; 1200]].concat()
}

/// Returns an ID that a client has chosen, of no configuration.
fn foreign(seed: u8) -> Vec<u8> {
    let mut id = vec![seed; 8];
    id[0] = 0xa0 | seed & 0x1f;
    id
}

/// A server's datagram that names no ID.
const ANSWER: [u8; 3] = [0x41, 2, 3];

/// Returns a server's first datagram, with the ID that it has chosen.
fn answer(id: &[u8]) -> Vec<u8> {
    let length = u8::try_from(id.len()).unwrap();
    [&[0xc3, 0, 0, 0, 1, 0, length], id, &[7; 1200]].concat()
}

/// Returns the server that a flow leads to.
fn of(placed: Result<Placed, Unrouted>) -> SocketAddr {
    match placed {
        Ok(Placed::New(_, address)) => address,
        other => panic!("a known flow or none: {other:?}"),
    }
}

#[test]
fn an_id_leads_to_its_server_from_any_address_under_every_scheme() {
    let now = clock::now();
    let mut balancer = Balancer::new(settings(three(), 1000));
    let mut port = 1;
    for scheme in 0..SCHEMES.len() {
        for number in 1..4 {
            for datagram in [short(&id(scheme, number, 9)), long(&id(scheme, number, 8))] {
                port += 1;
                assert_eq!(of(balancer.route(&tuple(port), &datagram, now)), address(number));
                let again = balancer.route(&tuple(port), &datagram, now);
                assert!(matches!(again, Ok(Placed::Known(_))));
            }
        }
    }
    assert_eq!(balancer.counters().by_id, 36);
}

#[test]
fn what_names_no_server_follows_the_flow_of_its_addresses_or_the_hash() {
    let now = clock::now();
    let mut balancer = Balancer::new(settings(three(), 1000));
    let first = balancer.route(&tuple(1), &long(&foreign(1)), now);
    let Ok(Placed::New(flow, _)) = first else { panic!("{first:?}") };
    let unknown_server = short(&id(0, 99, 1));
    let others = [long(&foreign(2)), unknown_server, short(&[0xff; 20]), short(&[]), long(&[])];
    for datagram in others {
        assert_eq!(balancer.route(&tuple(1), &datagram, now), Ok(Placed::Known(flow)));
    }
    // A balancer that has started again chooses the same.
    let mut other = Balancer::new(settings(three(), 1000));
    for port in 1..50 {
        let datagram = long(&foreign(3));
        let chosen = of(other.route(&tuple(port), &datagram, now));
        assert!(port == 1 || chosen == of(balancer.route(&tuple(port), &datagram, now)));
    }
}

#[test]
fn another_server_on_the_same_addresses_gets_a_flow_of_its_own() {
    let now = clock::now();
    let mut balancer = Balancer::new(settings(three(), 1000));
    let chosen = of(balancer.route(&tuple(1), &long(&foreign(1)), now));
    let other = (1..4).find(|number| address(*number) != chosen).unwrap();
    assert_eq!(of(balancer.route(&tuple(1), &short(&id(1, other, 1)), now)), address(other));
    let placed = balancer.route(&tuple(1), &long(&foreign(2)), now);
    let Ok(Placed::Known(flow)) = placed else { panic!("{placed:?}") };
    // The end of the first flow makes the other one the first.
    balancer.remove(flow);
    let placed = balancer.route(&tuple(1), &long(&foreign(2)), now);
    let second = balancer.route(&tuple(1), &short(&id(1, other, 1)), now);
    assert!(matches!(placed, Ok(Placed::Known(_))) && placed == second);
}

#[test]
fn clients_of_a_server_that_leaves_are_the_only_ones_that_move() {
    let now = clock::now();
    let choices = |balancer: &mut Balancer| {
        let choose = |port| of(balancer.route(&tuple(port), &long(&foreign(1)), now));
        (1..301).map(choose).collect::<Vec<_>>()
    };
    let before = choices(&mut Balancer::new(settings(three(), 1000)));
    for number in 1..4 {
        let share = before.iter().filter(|chosen| **chosen == address(number)).count();
        assert!((60..140).contains(&share), "{share} of 300");
    }
    let drained = (1..4).map(|number| server(number, number == 2)).collect();
    let mut unhealthy = Balancer::new(settings(three(), 1000));
    let key = unhealthy.servers()[1].key;
    unhealthy.set_health(key, false);
    for mut balancer in [Balancer::new(settings(drained, 1000)), unhealthy] {
        for (before, after) in before.iter().zip(choices(&mut balancer)) {
            assert!(after != address(2) && (*before == address(2) || *before == after));
        }
    }
}

#[test]
fn a_server_that_drains_or_is_down_keeps_its_flows_and_what_its_ids_are_on() {
    let now = clock::now();
    let mut balancer = Balancer::new(settings(three(), 1000));
    let hashed =
        (1..).find(|port| of(balancer.route(&tuple(*port), &long(&foreign(1)), now)) == address(2));
    let drained = (1..4).map(|number| server(number, number == 2)).collect();
    balancer.adopt(settings(drained, 1000));
    let key = balancer.servers()[1].key;
    balancer.set_health(key, false);
    let Some(flow) = balancer.flows.first_of(&tuple(hashed.unwrap())) else { panic!("a flow") };
    balancer.touch_by_server(flow, &answer(&[0xff; 8]), now);
    // The connection that it has, also after all that has no ID of a server.
    for datagram in [long(&foreign(1)), short(&foreign(2)), long(&[0xff; 8])] {
        let known = balancer.route(&tuple(hashed.unwrap()), &datagram, now);
        assert!(matches!(known, Ok(Placed::Known(_))));
    }
    let moved = balancer.route(&tuple(9999), &short(&id(2, 2, 1)), now);
    assert_eq!(of(moved), address(2));
}

#[test]
fn checks_that_fail_everywhere_count_for_nothing_but_a_drain_does() {
    let now = clock::now();
    let mut balancer = Balancer::new(settings(three(), 1000));
    for key in balancer.servers().iter().map(|server| server.key).collect::<Vec<_>>() {
        balancer.set_health(key, false);
    }
    assert!(balancer.route(&tuple(1), &long(&foreign(1)), now).is_ok());
    balancer.adopt(settings((1..4).map(|number| server(number, true)).collect(), 1000));
    let refused = balancer.route(&tuple(2), &long(&foreign(1)), now);
    assert_eq!(refused, Err(Unrouted::NoServer));
    assert_eq!(balancer.counters().no_server, 1);
}

#[test]
fn another_connection_from_a_known_port_leaves_a_server_that_takes_no_clients() {
    let now = clock::now();
    let (drained, removed) = (
        (1..4).map(|number| server(number, number == 2)).collect(),
        vec![server(1, false), server(3, false)],
    );
    for servers in [Some(drained), Some(removed), None] {
        let mut balancer = Balancer::new(settings(three(), 1000));
        let begin = |balancer: &mut Balancer, port: &u16, id| {
            balancer.route(&tuple(*port), &long(&foreign(id)), now)
        };
        let port = (1..).find(|port| of(begin(&mut balancer, port, 1)) == address(2)).unwrap();
        let first = balancer.flows.first_of(&tuple(port));
        let key = balancer.servers()[1].key;
        match servers {
            Some(servers) => balancer.adopt(settings(servers, 1000)),
            None => balancer.set_health(key, false),
        }
        let again = begin(&mut balancer, &port, 1);
        assert_eq!(again.ok(), first.map(Placed::Known));
        let other = begin(&mut balancer, &port, 2);
        let Ok(Placed::New(flow, chosen)) = other else { panic!("{other:?}") };
        assert_ne!(chosen, address(2));
        balancer.flows.check();
        // All of it follows, and a third one.
        for datagram in [long(&foreign(2)), short(&[0xff; 20]), long(&foreign(3))] {
            assert_eq!(balancer.route(&tuple(port), &datagram, now), Ok(Placed::Known(flow)));
        }
    }
}

/// Of the IDs that clients choose, one in eight has the number of no configuration.
#[test]
fn a_client_that_chooses_an_id_of_no_configuration_leaves_a_server_that_drains() {
    let now = clock::now();
    let mut balancer = Balancer::new(settings(three(), 1000));
    let begin = |balancer: &mut Balancer, port: u16, id: &[u8]| {
        balancer.route(&tuple(port), &long(id), now)
    };
    let port =
        (1..).find(|port| of(begin(&mut balancer, *port, &foreign(1))) == address(2)).unwrap();
    let Some(flow) = balancer.flows.first_of(&tuple(port)) else { panic!("a flow") };
    balancer.touch_by_server(flow, &answer(&[0xe7; 8]), now);
    balancer.adopt(settings((1..4).map(|number| server(number, number == 2)).collect(), 1000));
    assert_eq!(begin(&mut balancer, port, &[0xe7; 8]), Ok(Placed::Known(flow)));
    assert_ne!(of(begin(&mut balancer, port, &[0xe8; 8])), address(2));
}

#[test]
fn a_server_that_is_up_gets_new_clients_before_one_that_is_down_even_if_it_drains() {
    let now = clock::now();
    let drained = (1..4).map(|number| server(number, number == 2)).collect();
    let mut balancer = Balancer::new(settings(drained, 1000));
    let keys: Vec<_> = balancer.servers().iter().map(|server| server.key).collect();
    for down in [keys[0], keys[2]] {
        balancer.set_health(down, false);
    }
    for port in 1..50 {
        assert_eq!(of(balancer.route(&tuple(port), &long(&foreign(1)), now)), address(2));
    }
    balancer.set_health(keys[1], false);
    for port in 50..99 {
        assert_ne!(of(balancer.route(&tuple(port), &long(&foreign(1)), now)), address(2));
    }
}

#[test]
fn flows_stay_when_their_server_is_removed_and_ids_change() {
    let now = clock::now();
    let mut balancer = Balancer::new(settings(three(), 1000));
    let flow = balancer.route(&tuple(1), &short(&id(0, 3, 1)), now);
    let Ok(Placed::New(flow, _)) = flow else { panic!("{flow:?}") };
    let mut less = settings(three(), 1000);
    less.servers.pop();
    less.ids.remove(0);
    balancer.adopt(less);
    let placed = balancer.route(&tuple(1), &short(&id(0, 3, 2)), now);
    assert_eq!(placed, Ok(Placed::Known(flow)));
    // With the server back, its IDs lead to it again, by the address that it has now.
    let mut moved = settings(three(), 1000);
    moved.servers[2].address = address(77);
    balancer.adopt(moved);
    let placed = balancer.route(&tuple(1), &short(&id(0, 3, 2)), now);
    assert_eq!(of(placed), address(77));
}

#[test]
fn the_flow_that_has_been_silent_longest_gives_way_and_ends_first() {
    let start = clock::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut balancer = Balancer::new(settings(three(), 2));
    let mut open =
        |port: u16| match balancer.route(&tuple(port), &long(&foreign(1)), at(port.into())) {
            Ok(Placed::New(flow, _) | Placed::Known(flow)) => flow,
            other => panic!("{other:?}"),
        };
    let (first, second) = (open(1), open(2));
    balancer.touch_by_server(first, &ANSWER, at(3));
    let third = balancer.route(&tuple(4), &long(&foreign(1)), at(4));
    let Ok(Placed::New(third, _)) = third else { panic!("{third:?}") };
    assert_eq!((third.index, balancer.flows()), (second.index, 2));
    assert_eq!(balancer.next_deadline(), Some(at(63)));
    assert_eq!(balancer.next_ended(at(62)), None);
    assert_eq!(balancer.next_ended(at(63)), Some(first));
    assert_eq!(balancer.next_ended(at(63)), None);
    assert_eq!(balancer.next_ended(at(64)), Some(third));
    let counters = balancer.counters();
    assert_eq!((counters.opened, counters.evicted, counters.expired), (3, 1, 2));
}

#[test]
fn a_flood_takes_an_eighth_of_a_full_table_of_proven_flows() {
    const MAX: u16 = 80;
    let now = clock::now();
    let mut balancer = Balancer::new(settings(three(), MAX.into()));
    let begin = long(&foreign(1));
    for port in 1..=MAX {
        let Ok(Placed::New(flow, _)) = balancer.route(&tuple(port), &begin, now) else {
            panic!("a new client")
        };
        balancer.touch_by_server(flow, &ANSWER, now);
        balancer.route(&tuple(port), &begin, now).unwrap();
    }
    // What cannot begin a connection takes nothing at all.
    for datagram in [&[0x40][..], &begin[..1199], &short(&[0xff; 20])] {
        assert_eq!(balancer.route(&tuple(999), datagram, now), Err(Unrouted::NoRoom));
    }
    assert_eq!((balancer.counters().no_room, balancer.counters().evicted), (3, 0));
    for port in 1000..2000 {
        of(balancer.route(&tuple(port), &begin, now));
    }
    let is_known = |port: &u16| balancer.flows.first_of(&tuple(*port)).is_some();
    let (kept, flood) = ((1..=MAX).filter(is_known), (1000..2000).filter(is_known));
    assert_eq!((kept.count(), flood.count()), (69, 11));
    // A new one of them is there long enough to be proven.
    let Ok(Placed::Known(flow)) = balancer.route(&tuple(1999), &begin, now) else { panic!() };
    balancer.touch_by_server(flow, &ANSWER, now);
    balancer.route(&tuple(1999), &begin, now).unwrap();
    assert_eq!(balancer.flows.unproven(), 10);
}

#[test]
fn flows_begin_at_a_rate_and_known_ones_go_on_beside_a_flood() {
    let now = clock::now();
    let mut few = settings(three(), 1000);
    few.new_flows_per_second = 10;
    let mut balancer = Balancer::new(few);
    let begin = long(&foreign(1));
    let known = balancer.route(&tuple(1), &begin, now);
    let mut admitted = |datagram: &[u8], ports: std::ops::Range<u16>| {
        let routed = ports.map(|port| balancer.route(&tuple(port), datagram, now));
        let (new, rest): (Vec<_>, Vec<_>) = routed.partition(Result::is_ok);
        assert!(rest.iter().all(|refused| *refused == Err(Unrouted::RateLimited)));
        new.len()
    };
    // What begins no connection leaves half to what does.
    assert_eq!(admitted(&short(&[0xff; 20]), 100..200), 4);
    assert_eq!(admitted(&begin, 200..300), 5);
    // A client that changes its address is none of them.
    assert_eq!(admitted(&short(&id(0, 2, 1)), 300..309), 9);
    let Ok(Placed::New(flow, _)) = known else { panic!("{known:?}") };
    assert_eq!(balancer.route(&tuple(1), &begin, now), Ok(Placed::Known(flow)));
    let counters = balancer.counters();
    assert_eq!((counters.rate_limited, counters.by_id, counters.by_hash), (191, 9, 10));
    let later = now + Duration::from_millis(500);
    assert!(balancer.route(&tuple(400), &begin, later).is_ok());
}

#[test]
fn a_smaller_bound_ends_flows_too_many() {
    let now = clock::now();
    let mut balancer = Balancer::new(settings(three(), 10));
    for port in 1..=10 {
        of(balancer.route(&tuple(port), &long(&foreign(1)), now));
    }
    balancer.adopt(settings(three(), 4));
    let ended = std::iter::from_fn(|| balancer.next_ended(now)).count();
    assert_eq!((ended, balancer.flows()), (6, 4));
}

/// Something that happens to a balancer.
#[derive(Clone, Debug)]
enum Act {
    /// A datagram from a port, with an ID of a server under a scheme.
    Named {
        port: u16,
        scheme: usize,
        number: u8,
        is_long: bool,
    },
    /// A datagram from a port with any bytes, and more of them if it is large.
    Bytes {
        port: u16,
        bytes: Vec<u8>,
        is_large: bool,
    },
    /// Time passes.
    Wait(u64),
    Health {
        number: usize,
        is_up: bool,
    },
    /// Servers that are there, and those of them that drain, by bits.
    Reload {
        there: u8,
        draining: u8,
        max_flows: usize,
    },
    /// A server sends to the flow that was opened last.
    Answer,
}

fn act() -> impl Strategy<Value = Act> {
    let port = 1..9u16;
    prop_oneof![
        8 => (port.clone(), 0..3usize, 1..5u8, any::<bool>()).prop_map(
            |(port, scheme, number, is_long)| Act::Named { port, scheme, number, is_long }
        ),
        8 => (port, proptest::collection::vec(any::<u8>(), 0..40), any::<bool>())
            .prop_map(|(port, bytes, is_large)| Act::Bytes { port, bytes, is_large }),
        2 => (0..70u64).prop_map(Act::Wait),
        2 => (0..4usize, any::<bool>())
            .prop_map(|(number, is_up)| Act::Health { number, is_up }),
        1 => (0..16u8, 0..16u8, 1..9usize)
            .prop_map(|(there, draining, max_flows)| Act::Reload { there, draining, max_flows }),
        1 => Just(Act::Answer),
    ]
}

/// A balancer, and what is known of its flows.
struct World {
    balancer: Balancer,
    now: Instant,
    max_flows: usize,
    /// Addresses and server of each flow.
    flows: HashMap<FlowId, (u16, SocketAddr)>,
    /// Flows of each port, in the order in which they began.
    of_port: HashMap<u16, Vec<FlowId>>,
    last: Option<FlowId>,
}

impl World {
    fn new() -> World {
        let servers = (1..5).map(|number| server(number, false)).collect();
        let (balancer, now) = (Balancer::new(settings(servers, 5)), clock::now());
        let (flows, of_port) = (HashMap::new(), HashMap::new());
        World { balancer, now, max_flows: 5, flows, of_port, last: None }
    }

    /// Routes a datagram. Returns the server that it goes to.
    fn route(&mut self, port: u16, datagram: &[u8]) -> Option<SocketAddr> {
        let placed = self.balancer.route(&tuple(port), datagram, self.now).ok()?;
        let (Placed::New(flow, _) | Placed::Known(flow)) = placed;
        if let Placed::New(_, address) = placed {
            // It takes the place of a flow that has ended.
            let former = self.flows.keys().find(|former| former.index == flow.index).copied();
            former.into_iter().for_each(|former| self.forget(former));
            self.flows.insert(flow, (port, address));
            self.of_port.entry(port).or_default().push(flow);
            self.last = Some(flow);
        }
        // A connection that has left its server takes the port along.
        let first = self.balancer.flows.first_of(&tuple(port));
        let flows = self.of_port.entry(port).or_default();
        flows.sort_by_key(|flow| Some(*flow) != first);
        let (of_port, address) = self.flows[&flow];
        assert_eq!(of_port, port, "a flow is that of one client");
        Some(address)
    }

    fn forget(&mut self, flow: FlowId) {
        let (port, _) = self.flows.remove(&flow).expect("a flow ends once");
        self.of_port.entry(port).or_default().retain(|one| *one != flow);
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Named { port, scheme, number, is_long } => {
                let id = id(scheme, number, 3);
                let datagram = if is_long { long(&id) } else { short(&id) };
                let named = self.balancer.servers().iter().any(|s| s.address == address(number));
                let chosen = self.route(port, &datagram);
                assert!(!named || chosen == Some(address(number)));
            }
            Act::Bytes { port, mut bytes, is_large } => {
                bytes.resize(if is_large { 1200 } else { bytes.len() }, 0);
                let before = self.balancer.counters().by_id;
                let first = self.of_port.get(&port).and_then(|flows| flows.first());
                let of_first = first.map(|flow| self.flows[flow].1);
                let key = first.and_then(|flow| self.balancer.flows.server(*flow));
                let takes_clients = key.is_some_and(|key| self.balancer.pool.takes_clients(key));
                let chosen = self.route(port, &bytes);
                let is_named = self.balancer.counters().by_id > before;
                if let (false, Some(chosen), Some(of_first)) = (is_named, chosen, of_first) {
                    let stays = takes_clients || !is_large;
                    assert!(!stays || chosen == of_first, "a known client stays with its server");
                }
            }
            Act::Wait(seconds) => self.now += Duration::from_secs(seconds),
            Act::Health { number, is_up } => {
                let key = self.balancer.servers().get(number).map(|server| server.key);
                key.into_iter().for_each(|key| self.balancer.set_health(key, is_up));
            }
            Act::Reload { there, draining, max_flows } => {
                let has = |bits: u8, number: u8| bits >> (number - 1) & 1 == 1;
                let servers = (1..5).filter(|number| has(there, *number));
                let servers = servers.map(|number| server(number, has(draining, number)));
                self.max_flows = max_flows;
                self.balancer.adopt(settings(servers.collect(), max_flows));
            }
            Act::Answer => {
                self.last
                    .into_iter()
                    .for_each(|flow| self.balancer.touch_by_server(flow, &ANSWER, self.now));
            }
        }
        while let Some(ended) = self.balancer.next_ended(self.now) {
            self.forget(ended);
        }
        self.balancer.flows.check();
        assert_eq!(self.balancer.flows(), self.flows.len());
        assert!(self.flows.len() <= self.max_flows);
    }
}

proptest! {
    #[test]
    fn any_sequence_keeps_clients_at_their_servers_within_the_bound(
        acts in proptest::collection::vec(act(), 1..120)
    ) {
        let mut world = World::new();
        acts.into_iter().for_each(|act| world.act(act));
    }
}
