use std::time::Duration;

use data_encoding::HEXLOWER;
use sluicegate_base::observe::account::Wait;
use sluicegate_base::observe::connections::{ClientFilter, ConnectionSnapshot, IdPrefix};

use super::*;
use crate::settings::Settings;
use crate::testing::{Bench, Client, Reply};

/// Searches by few slots at a time.
fn search(
    bench: &Bench,
    selection: &ConnectionFilter,
    order: Order,
    limit: usize,
) -> (Vec<ConnectionSnapshot>, usize) {
    let mut search = ConnectionSearch::new(selection.clone(), order, limit);
    let turns = std::iter::from_fn(|| Some(bench.endpoint.inspect(&mut search, 2, bench.now)));
    let Inspected { shown, census } = turns.take(100).flatten().next().unwrap();
    assert!(shown.is_sorted_by(|(one, _), (next, _)| one >= next));
    for sums in [census.waits(), census.algorithms(), census.protocols()] {
        assert_eq!(sums.values().sum::<usize>(), census.count());
    }
    (shown.into_iter().map(|(_, snapshot)| snapshot).collect(), census.count())
}

fn ids(found: &(Vec<ConnectionSnapshot>, usize)) -> Vec<String> {
    found.0.iter().map(|snapshot| snapshot.client.to_string()).collect()
}

#[test]
fn connection_is_found_by_what_an_operator_knows() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let clients = ["192.0.2.1:5000", "192.0.2.1:5001", "192.0.2.2:5000"];
    for client in clients {
        bench.connect_client(Client::new(client));
    }
    let find = |selection: ConnectionFilter, limit| {
        let found = search(&bench, &selection, Order::Age, limit);
        (ids(&found), found.1)
    };
    let all = ConnectionFilter::default();
    assert_eq!(find(all.clone(), 10), (clients.map(str::to_owned).to_vec(), 3));
    assert_eq!(find(all.clone(), 1), (vec![clients[0].to_owned()], 3));
    let client = |ip: &str, port| ConnectionFilter {
        client: Some(ClientFilter::new(ip.parse().unwrap(), port)),
        ..ConnectionFilter::default()
    };
    assert_eq!(find(client("192.0.2.1/32", None), 10).1, 2);
    assert_eq!(find(client("::ffff:192.0.2.0/127", None), 10).1, 2);
    assert_eq!(find(client("192.0.2.1/32", Some(5001)), 10).0, [clients[1]]);
    assert_eq!(find(client("192.0.2.3/32", None), 10).1, 0);
    assert_eq!(find(client("192.0.2.0/24", Some(5000)), 10).1, 2);
    assert_eq!(find(client("::/0", None), 10).1, 0);
    for (listener, count) in [("main", 3), ("other", 0)] {
        let listener = Some(listener.to_owned());
        assert_eq!(find(ConnectionFilter { listener, ..all.clone() }, 10).1, count);
    }
    for (algorithm, count) in [("cubic", 3), ("reno", 0)] {
        let algorithm = Some(algorithm.to_owned());
        assert_eq!(find(ConnectionFilter { algorithm, ..all.clone() }, 10).1, count);
    }
    for (protocol, count) in [(ConnectionProtocol::Http3, 3), (ConnectionProtocol::Http2, 0)] {
        let protocol = Some(protocol);
        assert_eq!(find(ConnectionFilter { protocol, ..all.clone() }, 10).1, count);
    }
    for (wait, count) in [(Wait::Client, 3), (Wait::Handshake, 0)] {
        assert_eq!(find(ConnectionFilter { wait: Some(wait), ..all.clone() }, 10).1, count);
    }
    let (snapshots, _) = search(&bench, &all, Order::Age, 10);
    for snapshot in snapshots {
        let id = IdPrefix::parse(&HEXLOWER.encode(&snapshot.id)).unwrap();
        assert!(id.is_whole(&snapshot.id));
        let id = Some(id);
        let (found, count) =
            search(&bench, &ConnectionFilter { id, ..all.clone() }, Order::Age, 10);
        assert_eq!((found, count), (vec![snapshot], 1));
    }
}

/// Others may be older whose IDs begin with it.
#[test]
fn a_connection_whose_whole_id_is_given_comes_first() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    bench.connect_client(Client::new("192.0.2.1:5000"));
    let rank = |digits: &str| {
        let id = IdPrefix::parse(digits);
        let selection = ConnectionFilter { id, ..ConnectionFilter::default() };
        let mut search = ConnectionSearch::new(selection, Order::Age, 1);
        let found = bench.endpoint.inspect(&mut search, usize::MAX, bench.now).unwrap();
        found.shown[0].0
    };
    let connection = bench.endpoint.connections.get(0).unwrap();
    for id in connection.dcids() {
        let digits = HEXLOWER.encode(id);
        assert_eq!(rank(&digits), RANK_OF_NAMED);
        for length in [4, digits.len() - 2, digits.len() - 1] {
            assert!(rank(&digits[..length]) < RANK_OF_NAMED);
        }
    }
}

#[test]
fn snapshot_says_how_a_connection_is() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let client = bench.connect_client(Client::new("192.0.2.1:5000"));
    let (mut client, _) = bench.with_session(client);
    bench.talk(&mut client, Duration::from_secs(5), Duration::from_millis(100));
    let (found, _) = search(&bench, &ConnectionFilter::default(), Order::Stalled, 1);
    let snapshot = &found[0];
    assert_eq!((&*snapshot.listener, &*snapshot.algorithm), ("main", "cubic"));
    assert_eq!(snapshot.wait, Wait::Client);
    assert!(snapshot.waiting > Duration::from_secs(4));
    assert_eq!(snapshot.spent.iter().map(|(_, time)| *time).sum::<Duration>(), snapshot.age);
    assert!(snapshot.rtt.is_some() && snapshot.window >= 12_000 && snapshot.mtu >= 1200);
    assert!(snapshot.sent > 1000 && snapshot.received > 1000);
    assert_eq!((snapshot.lost, snapshot.retransmitted), (Some((0, 0)), 0));
}

#[test]
fn losses_are_counted_in_packets_and_bytes() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let client = bench.connect_client(Client::new("192.0.2.1:5000"));
    let (mut client, mut h3) = bench.with_session(client);
    client.request(&mut h3, "GET", "/bytes/20000");
    client.speak(&mut bench.endpoint, bench.now);
    // What the server says first is lost.
    assert!(!bench.said().is_empty());
    bench.talk(&mut client, Duration::from_secs(5), Duration::from_millis(20));
    let snapshot = search(&bench, &ConnectionFilter::default(), Order::Lost, 1).0.remove(0);
    assert!(snapshot.lost.is_some_and(|(packets, bytes)| packets > 0 && bytes > 1000));
    assert!(snapshot.retransmitted > 1000, "{snapshot:?}");
}

/// A wait for the client is no stall, however long it lasts.
#[test]
fn longest_stall_comes_first() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    bench.connect_client(Client::new("192.0.2.1:5000"));
    let client = bench.connect_client(Client::with_window("192.0.2.2:5000", 1000));
    let (mut client, mut h3) = bench.with_session(client);
    client.request(&mut h3, "GET", "/bytes/100000");
    bench.talk(&mut client, Duration::from_secs(2), Duration::from_millis(100));
    let found = search(&bench, &ConnectionFilter::default(), Order::Stalled, 10);
    assert_eq!(ids(&found), ["192.0.2.2:5000", "192.0.2.1:5000"]);
    assert_eq!(found.0[0].wait, Wait::StreamFlow);
    let found = search(&bench, &ConnectionFilter::default(), Order::Busy, 10);
    assert_eq!(ids(&found), ["192.0.2.2:5000", "192.0.2.1:5000"]);
    let [first, second] = &found.0[..] else { panic!("{found:?}") };
    assert!(first.busy > Duration::from_secs(1) && first.busy >= first.waiting, "{first:?}");
    assert_eq!(second.busy, Duration::ZERO);
}

#[test]
fn search_goes_on_while_connections_come_and_go() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let clients: Vec<Client> =
        (5000..5006).map(|port| bench.connect(&format!("192.0.2.1:{port}"))).collect();
    let mut search = ConnectionSearch::new(ConnectionFilter::default(), Order::Age, 10);
    assert_eq!(bench.endpoint.inspect(&mut search, 4, bench.now), None);
    // All end, and another one has the slot of one.
    for mut client in clients {
        client.quic.close(true, 0x100, b"").unwrap();
        client.speak(&mut bench.endpoint, bench.now);
    }
    bench.pass(Duration::from_secs(30));
    bench.connect("192.0.2.9:5000");
    let Inspected { shown, census } = bench.endpoint.inspect(&mut search, 4, bench.now).unwrap();
    assert!(shown.iter().all(|(_, one)| one.client.ip().to_string() == "192.0.2.9"), "{shown:?}");
    assert!(census.count() >= 4);
}

/// Events of an upstream, in turn with those that come before the one before is acknowledged; and a download whose upstream says no more.
#[test]
fn connection_that_gets_what_there_is_comes_behind_one_that_stalls() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let clients = ["192.0.2.1:5000", "192.0.2.2:5000", "192.0.2.3:5000"];
    let mut sessions: Vec<_> = clients
        .map(|client| {
            let client = bench.connect_client(Client::new(client));
            let (mut client, mut h3) = bench.with_session(client);
            client.request(&mut h3, "GET", "/app/later");
            bench.talk(&mut client, Duration::from_millis(40), Duration::from_millis(10));
            client
        })
        .into();
    let keys: Vec<_> = bench.endpoint.shared().requests.iter().map(|request| request.key).collect();
    let reply = |bench: &mut Bench, number: usize, reply: Reply| {
        bench.endpoint.shared_mut().replies.push_back((keys[number], reply));
        bench.endpoint.on_messages(10, bench.now);
    };
    (0..3).for_each(|number| reply(&mut bench, number, Reply::Head(200)));
    for step in 0..1000 {
        if step % 100 == 0 && step < 800 {
            reply(&mut bench, 0, Reply::Data(vec![0; 100]));
        }
        if step % 2 == 0 {
            reply(&mut bench, 1, Reply::Data(vec![0; 100]));
        }
        if step == 500 {
            reply(&mut bench, 2, Reply::Data(vec![0; 100]));
        }
        let said = bench.pass(Duration::from_millis(10));
        for client in &mut sessions {
            // It drops what others get.
            client.hear(said.clone());
            client.speak(&mut bench.endpoint, bench.now);
        }
    }
    for order in [Order::Busy, Order::Stalled] {
        let found = search(&bench, &ConnectionFilter::default(), order, 10);
        assert_eq!(ids(&found), [clients[2], clients[0], clients[1]], "{found:?}");
        let [stalled, slow, quick] = &found.0[..] else { panic!("{found:?}") };
        assert_eq!((stalled.wait, slow.wait), (Wait::Application, Wait::Application));
        for (one, least, most) in [(stalled, 4900, 5000), (slow, 2900, 3000), (quick, 0, 200)] {
            let usual = Duration::from_millis(least)..=Duration::from_millis(most);
            assert!(usual.contains(&one.waiting) && usual.contains(&one.busy), "{one:?}");
        }
    }
}
