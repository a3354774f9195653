//! Handshakes with a client that is not quiche: addresses, tokens, resumption, versions, resets.

use sluicegate_raw_client::{Parameters, Tls};

use super::*;
use crate::counters::HandshakeFailure;
use crate::testing::with_early_data;

/// TLS alert no_application_protocol.
const NO_PROTOCOL: u64 = 0x178;
/// TRANSPORT_PARAMETER_ERROR (RFC 9000 §20.1).
const PARAMETER_ERROR: u64 = 0x8;
/// Longer than everything that the server does about a silent client.
const LONG: Duration = Duration::from_secs(120);

/// Function that makes a client differ from others.
type Change = fn(&mut Peer);

/// Sends a client's first flight and returns the datagrams sent to it at once.
fn first_flight(attack: &mut Attack, peer: &mut Peer) -> Vec<Vec<u8>> {
    attack.speak(peer);
    let said = attack.turn().into_iter();
    said.map(|(_, datagram)| datagram).collect()
}

#[test]
fn a_foreign_client_connects_and_gets_its_response() {
    let mut attack = Attack::new(|_| {});
    let mut peer = attack.connect(PEER, Setup::new(1));
    attack.check_honest(&mut peer);
    assert_eq!(peer.client.closed(), None);
}

#[test]
fn a_foreign_client_proves_its_address_by_retry() {
    let mut attack = Attack::new(|s| s.quic.retry_above = Some(0));
    let mut peer = attack.connect(PEER, Setup::new(1));
    assert_eq!((peer.client.retries, attack.endpoint().counters.retries), (1, 1));
    attack.check_honest(&mut peer);
}

#[test]
fn a_foreign_client_resumes_its_session() {
    let mut attack = Attack::new(|_| {});
    let mut setup = Setup::new(1);
    let first = attack.connect(PEER, setup.clone());
    assert!(first.client.tickets() > 0 && !first.client.is_resumed());
    setup.dcid = vec![9; 8];
    let mut second = attack.connect("192.0.2.1:5001", setup);
    assert!(second.client.is_resumed());
    attack.check_honest(&mut second);
}

/// The token was made for another server, cut, used from another address or for another connection, or is too old.
#[test]
fn a_retry_token_is_good_for_its_server_address_and_connection_for_a_while() {
    let changes: [(&str, Change); 5] = [
        ("cut", |peer| peer.client.token.truncate(20)),
        ("of another key", |peer| *peer.client.token.last_mut().unwrap() ^= 1),
        ("from another port", |peer| peer.meta = meta_of("192.0.2.1:5001")),
        ("from another address", |peer| peer.meta = meta_of("192.0.2.2:5000")),
        ("for another connection", |peer| peer.client.dcid[15] ^= 1),
    ];
    for (what, change) in changes {
        let mut attack = Attack::new(|s| s.quic.retry_above = Some(0));
        let mut peer = Peer::new(PEER, Setup::new(1));
        let retry = first_flight(&mut attack, &mut peer);
        peer.client.receive(&retry[0]);
        peer.client.take_datagrams();
        change(&mut peer);
        peer.client.repeat_hello();
        attack.exchange(&mut peer);
        let counters = &attack.endpoint().counters;
        assert_eq!((counters.accepted, counters.bad_tokens), (0, 1), "{what}");
        assert!(attack.endpoint().is_empty(), "{what}");
    }
    let mut attack = Attack::new(|s| s.quic.retry_above = Some(0));
    let mut peer = Peer::new(PEER, Setup::new(1));
    let retry = first_flight(&mut attack, &mut peer);
    peer.client.receive(&retry[0]);
    let late =
        UNIX + attack.endpoint().settings.quic.retry_token_lifetime + Duration::from_secs(61);
    for mut datagram in peer.client.take_datagrams() {
        attack.metered(|endpoint, _, now| endpoint.ingest(&peer.meta, &mut datagram, now, late));
    }
    let counters = &attack.endpoint().counters;
    assert_eq!((counters.accepted, counters.bad_tokens), (0, 1));
}

#[test]
fn a_retry_token_that_is_used_twice_opens_one_connection() {
    let mut attack = Attack::new(|s| s.quic.retry_above = Some(0));
    let mut peer = Peer::new(PEER, Setup::new(1));
    let retry = first_flight(&mut attack, &mut peer);
    peer.client.receive(&retry[0]);
    let again = peer.client.take_datagrams();
    for datagram in [again.clone(), again].concat() {
        attack.ingest(&peer.meta, datagram);
    }
    assert_eq!(attack.endpoint().counters.accepted, 1);
}

#[test]
fn an_initial_below_1200_bytes_is_dropped() {
    let mut attack = Attack::new(|_| {});
    let mut peer = Peer::new(PEER, Setup::new(1));
    let whole = peer.client.take_datagrams().remove(0);
    assert_eq!(whole.len(), 1200);
    let hello = Frame::Crypto { offset: 0, data: vec![1; 300] };
    let short = peer.client.packet(PacketKind::Initial, &[hello, Frame::Padding(800)]);
    for datagram in [short, whole[..1199].to_vec()] {
        assert!(datagram.len() < 1200);
        attack.ingest(&peer.meta, datagram);
    }
    assert!(attack.turn().is_empty());
    let endpoint = attack.endpoint();
    assert_eq!(endpoint.counters.accepted, 0);
    assert_eq!(dropped(endpoint, DropReason::ShortInitial), 2);
}

/// Coalesced packets that nobody can decrypt, padding and several datagrams count as received; the server's repetitions,
/// padding and coalescing as sent.
#[test]
fn nobody_gets_more_than_three_times_what_came_from_the_address() {
    let ways: [(&str, Change); 4] = [
        ("one datagram", |_| {}),
        ("coalesced with junk", |peer| {
            let mut datagram = peer.client.take_datagrams().remove(0);
            datagram.extend([0xe5, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x40, 30]);
            datagram.extend([0; 30]);
            peer.client.queue(datagram);
        }),
        ("repeated", |peer| {
            let datagram = peer.client.take_datagrams().remove(0);
            (0..5).for_each(|_| peer.client.queue(datagram.clone()));
        }),
        ("with pings", |peer| {
            for _ in 0..5 {
                let ping = peer.client.datagram(&[(PacketKind::Initial, vec![Frame::Ping])]);
                peer.client.queue(ping);
            }
        }),
    ];
    for (what, prepare) in ways {
        let mut attack = Attack::new(|s| s.limits.handshake_timeout = LONG);
        let mut peer = Peer::new(PEER, Setup::new(1));
        prepare(&mut peer);
        peer.client.policy.handshake = false;
        peer.client.policy.acks = false;
        attack.pass(LONG, &mut peer);
        let (sent, received) = (peer.sent, peer.received);
        assert!(received > sent && received <= 3 * sent, "{what}: {received} for {sent}");
    }
}

#[test]
fn versions_are_named_to_large_datagrams_only_and_never_to_a_negotiation() {
    let mut attack = Attack::new(|_| {});
    let mut peer = Peer::new(PEER, Setup::new(1));
    let mut first = peer.client.take_datagrams().remove(0);
    first[1..5].copy_from_slice(&[0x1a, 0x2a, 0x3a, 0x4a]);
    attack.ingest(&peer.meta, first[..1199].to_vec());
    let mut negotiation = first.clone();
    negotiation[1..5].copy_from_slice(&[0; 4]);
    attack.ingest(&peer.meta, negotiation);
    assert!(attack.turn().is_empty());
    attack.ingest(&peer.meta, first);
    let said = attack.turn();
    assert!(said.len() == 1 && said[0].1.len() < 1200);
    hear(&mut peer, said);
    assert!(peer.client.versions.unwrap().contains(&1));
    assert!(attack.endpoint().is_empty());
}

#[test]
fn a_connection_that_a_restart_has_ended_is_reset() {
    let mut attack = Attack::new(|_| {});
    let mut peer = attack.connect(PEER, Setup::new(1));
    let secrets = Arc::clone(&attack.endpoint().settings.secrets);
    drop(attack);
    let mut attack = Attack::new(|settings| settings.secrets = secrets);
    peer.client.send(&[Frame::Ping, Frame::Padding(60)]);
    let trigger = peer.client.take_datagrams().remove(0);
    attack.ingest(&peer.meta, trigger.clone());
    let said = attack.turn();
    assert!(said.len() == 1 && said[0].1.len() < trigger.len());
    hear(&mut peer, said);
    assert!(peer.client.is_reset);
}

#[test]
fn transport_parameters_that_no_client_may_send_end_the_handshake() {
    let plain = Parameters::plain;
    let cases = [
        ("no connection ID of its own", plain().with_bytes(Parameters::INITIAL_SCID, vec![5; 4])),
        ("a server's: the original ID", plain().with_bytes(Parameters::ORIGINAL_DCID, vec![1; 8])),
        ("a server's: a reset token", plain().with_bytes(Parameters::RESET_TOKEN, vec![1; 16])),
        ("a server's: the ID of a Retry", plain().with_bytes(Parameters::RETRY_SCID, vec![1; 8])),
        ("datagrams below 1200 bytes", plain().with(0x3, 1199)),
        ("an exponent above 20", plain().with(0xa, 21)),
        ("a delay of 2^14 ms", plain().with(0xb, 1 << 14)),
        ("one connection ID", plain().with(Parameters::CID_LIMIT, 1)),
        ("too many streams", plain().with(0x8, (1 << 60) + 1)),
        ("one parameter twice", plain().and(Parameters::MAX_DATA, vec![1])),
        ("half an integer", plain().with_bytes(Parameters::MAX_DATA, vec![0x80])),
    ];
    let mut attack = Attack::new(|_| {});
    let mut wrong = Vec::new();
    for (number, (what, parameters)) in (1..).zip(cases) {
        let mut setup = Setup::new(number);
        setup.parameters = parameters;
        let mut peer = Peer::new(PEER, setup);
        attack.exchange(&mut peer);
        // quiche returns the same error for a value that is cut as for a packet that is cut, and the server is silent about packets.
        let reported = peer.client.closed() == Some((false, PARAMETER_ERROR));
        if !attack.endpoint().is_empty() || reported == (what == "half an integer") {
            wrong.push(what);
        }
    }
    assert_eq!(wrong, Vec::<&str>::new());
    assert_eq!(attack.endpoint().counters.refusals, 10);
    assert_eq!(attack.endpoint().counters.established, 0);
}

#[test]
fn a_client_of_another_protocol_is_refused_by_tls() {
    let mut attack = Attack::new(|_| {});
    let mut setup = Setup::new(1);
    setup.tls = Tls::new("localhost", b"none");
    let mut peer = Peer::new(PEER, setup);
    attack.exchange(&mut peer);
    assert_eq!(peer.client.closed(), Some((false, NO_PROTOCOL)));
    attack.pass(LONG, &mut peer);
    assert_eq!(attack.endpoint().counters.unfinished[HandshakeFailure::Tls], 1);
}

/// Returns a client that has resumed a session and whose first flight holds a request in early data, and a token for its address.
fn early_request(attack: &mut Attack, setup: &Setup, head: &[u8]) -> Peer {
    let first = attack.connect(PEER, setup.clone());
    let token = first.client.frames.iter().find_map(|frame| match frame {
        Frame::NewToken(token) => Some(token.clone()),
        _ => None,
    });
    let mut setup = setup.clone();
    setup.dcid = vec![9; 8];
    setup.token = token.unwrap();
    let mut peer = Peer::new("192.0.2.1:5001", setup);
    assert!(peer.client.has_keys(PacketKind::ZeroRtt));
    let control = peer.client.stream_frames(http3::CONTROL, &http3::control(&[]), false);
    let request = peer.client.stream_frames(0, head, true);
    let packet = peer.client.packet(PacketKind::ZeroRtt, &[control, request].concat());
    peer.client.queue(packet);
    peer
}

#[test]
fn early_data_of_a_foreign_client_is_answered_once_and_a_copy_adds_nothing() {
    let mut attack = Attack::new(with_early_data);
    let mut peer = early_request(&mut attack, &Setup::new(1), &http3::get("/bytes/100", &[]));
    let flight = peer.client.take_datagrams();
    for datagram in [flight.clone(), flight].concat() {
        peer.client.queue(datagram);
    }
    attack.exchange(&mut peer);
    assert!(peer.client.is_early_data_accepted() && peer.client.is_resumed());
    assert_eq!(peer.response(0), (Some(200), 100));
    assert_eq!(attack.endpoint().shared().counters.requests, 1);
}
