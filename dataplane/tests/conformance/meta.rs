//! Metadata arrives with its datagram.

use std::net::SocketAddr;

use sluicegate_dataplane::{Ecn, ListenerId};

use crate::node::to;
use crate::rig::{FIRST, Role, Shape, each};

#[test]
fn a_datagram_and_its_answer_carry_both_addresses() {
    each(|world| {
        for bound in ["127.0.0.1:0", "[::1]:0"] {
            let (mut server, mut client) = world.pair(bound);
            client.send(server.address(), b"question", 8);
            let question = server.collect(1).remove(0);
            assert_eq!(question.bytes, b"question");
            assert_eq!(question.meta.peer, client.address());
            assert_eq!(question.meta.local, server.address());
            assert_eq!(question.meta.listener, FIRST);
            server.send(question.meta.peer, b"answer", 6);
            let answer = client.collect(1).remove(0);
            assert_eq!(
                (answer.bytes.as_slice(), answer.meta.peer),
                (&b"answer"[..], server.address())
            );
        }
    });
}

#[test]
fn a_wildcard_listener_knows_where_it_was_asked_and_answers_from_there() {
    each(|world| {
        // IPv6 has one address of loopback.
        let second_v6 = if world.link.is_some() { "::2" } else { "::1" };
        let cases = [
            ("0.0.0.0:0", "127.0.0.1:0", ["127.0.0.1", "127.0.0.7"]),
            ("[::]:0", "[::1]:0", ["::1", second_v6]),
        ];
        for (wildcard, source, targets) in cases {
            let (mut server, mut client) = (world.server(&[wildcard]), world.client(&[source]));
            for target in targets {
                let target = SocketAddr::new(target.parse().unwrap(), server.address().port());
                let target = world.at(Role::Server, &target.to_string());
                client.send(target, b"ping", 4);
                let ping = server.collect(1).remove(0).meta;
                assert_eq!(ping.local, target);
                let mut answer = to(ping.peer);
                answer.local = Some(ping.local);
                server.send_with(FIRST, &answer, b"pong", 4);
                assert_eq!(client.collect(1)[0].meta.peer, target);
            }
        }
    });
}

#[test]
fn both_wildcards_share_a_port_on_one_driver() {
    each(|world| {
        // Another test may take the port in between: then the next one.
        let mut server = (0..50)
            .find_map(|_| {
                let port = world.server(&["0.0.0.0:0"]).address().port();
                let both = [&*format!("0.0.0.0:{port}"), &*format!("[::]:{port}")];
                world.open(Role::Server, &both, Shape::default()).ok()
            })
            .unwrap()
            .remove(0);
        let port = server.address().port();
        for (source, listener) in [("127.0.0.1:0", ListenerId(0)), ("[::1]:0", ListenerId(1))] {
            let mut client = world.client(&[source]);
            let mut target = world.at(Role::Server, source);
            target.set_port(port);
            client.send(target, b"x", 1);
            let meta = server.collect(1).remove(0).meta;
            assert_eq!(
                (meta.listener, meta.local, meta.peer),
                (listener, target, client.address())
            );
        }
    });
}

#[test]
fn ecn_bits_survive_in_every_family() {
    each(|world| {
        for bound in ["127.0.0.1:0", "[::1]:0"] {
            let (mut server, mut client) = world.pair(bound);
            let all = [Ecn::Ect0, Ecn::Ect1, Ecn::CongestionExperienced, Ecn::NotCapable];
            for ecn in all {
                let mut meta = to(server.address());
                meta.ecn = ecn;
                client.send_with(FIRST, &meta, b"ecn", 3);
                assert_eq!(server.collect(1)[0].meta.ecn, ecn);
            }
            let mut batch = to(server.address());
            batch.ecn = Ecn::Ect0;
            client.send_with(FIRST, &batch, &[5; 3000], 1000);
            assert!(server.collect(3).iter().all(|datagram| datagram.meta.ecn == Ecn::Ect0));
        }
    });
}

#[test]
fn each_listener_of_a_driver_has_its_own_datagrams() {
    each(|world| {
        let mut server = world.server(&["127.0.0.1:0", "127.0.0.1:0", "[::1]:0"]);
        let mut client = world.client(&["127.0.0.1:0", "[::1]:0"]);
        for index in [2, 0, 1] {
            let target = server.addresses[index];
            let by = ListenerId(target.is_ipv6().into());
            client.send_with(by, &to(target), b"hello", 5);
            let meta = server.collect(1).remove(0).meta;
            assert_eq!(usize::from(meta.listener.0), index);
            assert_eq!(meta.local, target);
            server.send_with(meta.listener, &to(meta.peer), b"ok", 2);
            assert_eq!(client.collect(1)[0].meta.peer, target);
        }
    });
}
