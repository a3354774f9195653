//! Clients that come back with the token of a NEW_TOKEN frame, or with another one.

use sluicegate_base::secrets::{RootSecret, Secrets};

use super::*;
use crate::counters::RefusalReason;
use crate::testing::meta_of;
use crate::token::{NewTokenRefusal as Refusal, NewTokens, TokenKind};

/// The client of [`PEER`], at another port.
const RETURNED: &str = "192.0.2.1:5999";
const ELSEWHERE: &str = "198.51.100.7:6000";

/// Returns an endpoint that asks every client to prove its address, with further changes of its settings.
fn guarded(change: impl FnOnce(&mut Settings<PageSession>)) -> Attack {
    Attack::new(|settings| {
        settings.quic.retry_above = Some(0);
        change(settings);
    })
}

/// Uses these root secrets.
fn with_roots(settings: &mut Settings<PageSession>, roots: &[u8]) {
    let roots = roots.iter().map(|root| RootSecret::new([*root; 32]));
    let secrets = Secrets::from_roots(roots.collect(), 0, std::path::Path::new("t"));
    settings.secrets = Arc::new(secrets.unwrap());
}

/// Adds a listener, number 1.
fn with_another_listener(settings: &mut Settings<PageSession>) {
    let mut other = Settings::plain(0, 1).listeners.remove(&ListenerId(0)).unwrap();
    other.name = "other".into();
    settings.listeners.insert(ListenerId(1), other);
}

/// Returns the tokens that a client has received.
fn tokens(peer: &Peer) -> Vec<Vec<u8>> {
    let token = |frame: &Frame| match frame {
        Frame::NewToken(token) => Some(token.clone()),
        _ => None,
    };
    peer.client.frames.iter().filter_map(token).collect()
}

/// Returns the token of a client that has closed its connection.
fn token_of(attack: &mut Attack, address: &str) -> Vec<u8> {
    let mut peer = attack.connect(address, Setup::new(1));
    peer.client.send(&[Frame::Close { application: true, code: 0x100, reason: Vec::new() }]);
    attack.pass(Duration::from_secs(10), &mut peer);
    assert!(attack.endpoint().is_empty());
    tokens(&peer).remove(0)
}

/// Returns a client that begins with a token.
fn with_token(address: &str, token: &[u8]) -> Peer {
    let port = meta_of(address).peer.port();
    let mut setup = Setup::new(port.into());
    setup.token = token.to_vec();
    Peer::new(address, setup)
}

/// Lets a client that begins with a token connect. Returns it.
fn come_back(attack: &mut Attack, address: &str, token: &[u8]) -> Peer {
    let mut peer = with_token(address, token);
    attack.exchange(&mut peer);
    peer
}

/// Checks that a client was served, after so many Retry packets.
fn check_served(attack: &Attack, peer: &Peer, retries: usize, what: &str) {
    assert_eq!(peer.client.closed(), None, "{what}");
    assert!(peer.client.is_confirmed(), "{what}");
    assert_eq!(peer.client.retries, retries, "{what}");
    assert_eq!(attack.endpoint().counters.bad_tokens, 0, "{what}");
}

fn refused(attack: &Attack, reason: Refusal) -> u64 {
    attack.endpoint().counters.new_tokens_refused[reason]
}

#[test]
fn a_returning_client_is_spared_the_retry_and_gets_another_token() {
    let mut attack = guarded(|_| {});
    let token = token_of(&mut attack, PEER);
    assert_eq!((TokenKind::of(&token), token.len()), (Some(TokenKind::NewToken), NewTokens::LEN));
    let mut peer = come_back(&mut attack, RETURNED, &token);
    check_served(&attack, &peer, 0, "another port");
    let counters = &attack.endpoint().counters;
    assert_eq!((counters.retries, counters.new_tokens_accepted), (1, 1));
    assert_eq!(counters.new_tokens_sent, 2);
    let next = tokens(&peer);
    assert_eq!(next.len(), 1);
    assert_ne!(next[0], token);
    attack.ask(&mut peer, 0, 10_000);
    assert_eq!(peer.response(0), (Some(200), 10_000));
    let peer = come_back(&mut attack, "192.0.2.1:6001", &next[0]);
    check_served(&attack, &peer, 0, "the next one");
}

/// Makes something wrong with a token, or with who presents it.
type Change = fn(&mut Attack, &mut Peer);

#[test]
fn a_token_that_is_not_good_counts_as_none() {
    let cases: [(&str, Refusal, Change); 8] = [
        ("of another address", Refusal::WrongAddress, |_, peer| {
            peer.meta = meta_of("192.0.2.2:5999");
        }),
        ("of IPv6", Refusal::WrongAddress, |_, peer| {
            peer.meta = meta_of("[2001:db8::1]:5999");
        }),
        ("of another listener", Refusal::WrongListener, |_, peer| {
            peer.meta.listener = ListenerId(1);
        }),
        ("expired", Refusal::Expired, |attack, _| {
            attack.unix += Duration::from_secs(86_400) + Duration::from_millis(1);
        }),
        ("altered", Refusal::Forged, |_, peer| peer.client.token[60] ^= 1),
        ("cut", Refusal::Truncated, |_, peer| peer.client.token.truncate(50)),
        ("of a key that there is not", Refusal::UnknownKey, |_, peer| {
            peer.client.token[1] ^= 1;
        }),
        ("used", Refusal::Used, |attack, peer| {
            let token = peer.client.token.clone();
            let other = come_back(attack, "192.0.2.1:7000", &token);
            check_served(attack, &other, 0, "the first use");
        }),
    ];
    for (what, reason, change) in cases {
        let mut attack = guarded(with_another_listener);
        let token = token_of(&mut attack, PEER);
        let mut peer = with_token(RETURNED, &token);
        // What it has queued has the token as it was.
        peer.client.take_datagrams();
        change(&mut attack, &mut peer);
        peer.client.repeat_hello();
        attack.exchange(&mut peer);
        check_served(&attack, &peer, 1, what);
        assert_eq!(refused(&attack, reason), 1, "{what}");
    }
}

#[test]
fn a_token_is_good_until_its_root_secret_is_taken_away() {
    let token = token_of(&mut guarded(|s| with_roots(s, &[1])), PEER);
    for (roots, retries) in [(&[1][..], 0), (&[2, 1], 0), (&[2], 1)] {
        let mut attack = guarded(|s| with_roots(s, roots));
        let peer = come_back(&mut attack, RETURNED, &token);
        check_served(&attack, &peer, retries, &format!("{roots:?}"));
    }
}

#[test]
fn retry_tokens_and_those_of_new_token_frames_do_not_pass_for_each_other() {
    let mut attack = guarded(|_| {});
    let mut new = token_of(&mut attack, PEER);
    let mut peer = Peer::new(PEER, Setup::new(3));
    attack.speak(&mut peer);
    let said = attack.turn();
    hear(&mut peer, said);
    let mut retry = peer.client.token.clone();
    assert_eq!(TokenKind::of(&retry), Some(TokenKind::Retry));
    retry[0] = TokenKind::NewToken as u8;
    let peer = come_back(&mut attack, PEER, &retry);
    check_served(&attack, &peer, 1, "a Retry token");
    assert_eq!(refused(&attack, Refusal::Truncated), 1);
    new[0] = TokenKind::Retry as u8;
    let peer = come_back(&mut attack, RETURNED, &new);
    assert!(peer.client.is_confirmed() && peer.client.retries == 1);
    let counters = &attack.endpoint().counters;
    assert_eq!((counters.bad_tokens, counters.new_tokens_accepted), (1, 0));
}

#[test]
fn tokens_of_other_servers_count_as_none() {
    for token in [vec![3; NewTokens::LEN], vec![0], vec![0xff; 400]] {
        let mut attack = guarded(|_| {});
        let peer = come_back(&mut attack, RETURNED, &token);
        check_served(&attack, &peer, 1, "another server's");
        let counters = &attack.endpoint().counters;
        assert_eq!(counters.new_tokens_refused, <_>::default());
    }
}

#[test]
fn a_lost_token_is_sent_again() {
    let mut attack = Attack::new(|_| {});
    let mut peer = Peer::new(PEER, Setup::new(1));
    attack.speak(&mut peer);
    let said = attack.turn();
    hear(&mut peer, said);
    attack.speak(&mut peer);
    assert!(!attack.turn().is_empty(), "lost, with the token");
    assert_eq!(attack.endpoint().counters.established, 1);
    assert_eq!(tokens(&peer).len(), 0);
    attack.pass(Duration::from_secs(5), &mut peer);
    let mut received = tokens(&peer);
    assert!(!received.is_empty());
    received.dedup();
    assert_eq!(received.len(), 1, "the same one");
    assert_eq!(attack.endpoint().counters.new_tokens_sent, 1);
    let before = tokens(&peer).len();
    attack.ask(&mut peer, 0, 100_000);
    attack.pass(Duration::from_secs(5), &mut peer);
    assert_eq!(tokens(&peer).len(), before, "acknowledged");
}

/// Whoever has an address now need not be who got the token there.
#[test]
fn a_good_token_lifts_no_limit_of_three_times() {
    let long = Duration::from_secs(120);
    let mut attack = guarded(|s| s.limits.handshake_timeout = long);
    let token = token_of(&mut attack, PEER);
    let mut peer = with_token(RETURNED, &token);
    peer.client.policy.handshake = false;
    peer.client.policy.acks = false;
    attack.pass(long + long, &mut peer);
    assert_eq!(attack.endpoint().counters.new_tokens_accepted, 1);
    let (received, sent) = (peer.received, peer.sent);
    assert!(received > sent, "{received} for {sent}");
    assert!(received <= 3 * sent, "{received} for {sent}");
    assert!(attack.endpoint().is_empty());
}

/// Filters of used tokens would fill up, and take fresh ones for used.
#[test]
fn a_token_is_not_used_up_where_no_retry_is_asked_for() {
    let mut attack = Attack::new(|_| {});
    let token = token_of(&mut attack, PEER);
    for port in 6000..6003 {
        let address = format!("192.0.2.1:{port}");
        let peer = come_back(&mut attack, &address, &token);
        check_served(&attack, &peer, 0, &address);
    }
    let counters = &attack.endpoint().counters;
    assert_eq!(counters.new_tokens_accepted, 0);
    assert_eq!(counters.new_tokens_refused, <_>::default());
}

#[test]
fn a_token_that_was_used_spares_no_retry() {
    let mut attack = guarded(|_| {});
    let token = token_of(&mut attack, PEER);
    for (address, retries) in [(RETURNED, 0), ("192.0.2.1:6001", 1)] {
        let peer = come_back(&mut attack, address, &token);
        check_served(&attack, &peer, retries, address);
    }
    assert_eq!(refused(&attack, Refusal::Used), 1);
}

#[test]
fn a_token_opens_no_connection_beyond_the_client_s_share() {
    let mut attack = guarded(|s| s.limits.connections_per_client = 1);
    let mut first = attack.connect(PEER, Setup::new(1));
    let token = tokens(&first).remove(0);
    let peer = come_back(&mut attack, RETURNED, &token);
    // CONNECTION_REFUSED.
    assert_eq!(peer.client.closed(), Some((false, 0x2)));
    assert_eq!(attack.endpoint().counters.refused[RefusalReason::Client], 1);
    assert_eq!(attack.endpoint().counters.new_tokens_accepted, 0);
    assert_eq!(attack.endpoint().len(), 1);
    first.client.send(&[Frame::Close { application: true, code: 0x100, reason: Vec::new() }]);
    attack.pass(Duration::from_secs(10), &mut first);
    // The refusal has not used it up.
    let peer = come_back(&mut attack, RETURNED, &token);
    check_served(&attack, &peer, 0, "later");
}

#[test]
fn a_token_opens_no_connection_to_a_server_that_drains() {
    let mut attack = guarded(|_| {});
    let token = token_of(&mut attack, PEER);
    attack.metered(|endpoint, _, now| endpoint.drain(now));
    let peer = come_back(&mut attack, RETURNED, &token);
    assert_eq!(peer.client.closed(), Some((false, 0x2)));
    assert_eq!(attack.endpoint().counters.refused[RefusalReason::Draining], 1);
}

#[test]
fn a_client_whose_port_changes_gets_no_further_token() {
    let mut attack = Attack::new(|_| {});
    let mut peer = attack.connect(PEER, Setup::new(1));
    peer.meta = meta_of(RETURNED);
    peer.client.send(&[Frame::Ping, Frame::Padding(1150)]);
    attack.pass(Duration::from_secs(5), &mut peer);
    let connection = attack.endpoint().connections.get(0).unwrap();
    assert_eq!(connection.quic().validated_path().map(|path| path.1), Some(peer.meta.peer));
    assert_eq!(tokens(&peer).len(), 1);
}

#[test]
fn a_client_that_moves_gets_a_token_for_its_new_address_when_that_is_validated() {
    let mut attack = guarded(|_| {});
    let mut peer = attack.connect(PEER, Setup::new(1));
    let next = peer.client.frames.iter().find_map(|frame| match frame {
        Frame::NewConnectionId { id, .. } => Some(id.clone()),
        _ => None,
    });
    let old = tokens(&peer).remove(0);
    peer.client.dcid = next.expect("a spare connection ID");
    peer.meta = meta_of(ELSEWHERE);
    peer.client.send(&[Frame::Ping, Frame::Padding(1150)]);
    attack.speak(&mut peer);
    let challenge = attack.turn();
    let connection = attack.endpoint().connections.get(0).unwrap();
    assert_eq!(connection.address, peer.meta.peer.into());
    assert_eq!(attack.endpoint().counters.new_tokens_sent, 1);
    hear(&mut peer, challenge);
    attack.pass(Duration::from_secs(5), &mut peer);
    let all = tokens(&peer);
    assert_eq!(all.len(), 2);
    let returned = come_back(&mut attack, "198.51.100.7:6001", &all[1]);
    check_served(&attack, &returned, 0, "where it has moved to");
    let returned = come_back(&mut attack, "198.51.100.7:6002", &old);
    check_served(&attack, &returned, 1, "with the token of where it was");
}

#[test]
fn with_a_lifetime_of_zero_no_token_is_given_or_accepted() {
    let token = token_of(&mut guarded(|s| with_roots(s, &[1])), PEER);
    let mut attack = guarded(|s| {
        with_roots(s, &[1]);
        s.quic.new_token_lifetime = Duration::ZERO;
    });
    let peer = come_back(&mut attack, RETURNED, &token);
    check_served(&attack, &peer, 1, "off");
    assert!(tokens(&peer).is_empty());
    let counters = &attack.endpoint().counters;
    assert_eq!((counters.new_tokens_sent, counters.new_tokens_accepted), (0, 0));
    assert_eq!(counters.new_tokens_refused, <_>::default());
}
