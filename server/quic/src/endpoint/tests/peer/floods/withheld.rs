//! Floods of a client that acknowledges nothing.

use super::frames::{gap, retire_as_they_come, send_challenges};
use super::*;

/// Packets until the congestion window is full of the server's responses.
const FILL: u64 = 2 * FLOOD;
/// Bytes by which records of sent acknowledgements come and go: 64 of them, with as many ranges as the server sends.
const SWING: i64 = 192 << 10;

fn check_filled(what: &'static str, packets: Packets) -> Result<(), String> {
    let mut attack = Attack::new(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    let mut peer = attack.connect(PEER, Setup::new(1));
    peer.client.policy.acks = false;
    run(&mut attack, &mut peer, packets, 1..FILL);
    let before = attack.held;
    run(&mut attack, &mut peer, packets, FILL..FILL + FLOOD);
    let grown = attack.held - before;
    let closed = peer.client.closed();
    attack.check_honest(&mut honest);
    attack.endpoint().check();
    if closed.is_none() && grown <= SWING {
        return Ok(());
    }
    Err(format!("{what}: {closed:x?}, {grown} bytes more"))
}

#[test]
fn a_client_that_acknowledges_nothing_makes_nothing_grow() {
    let floods: [(&str, Packets); 8] = [
        ("PING", |peer, _| send(peer, Frame::Ping)),
        ("a gap in each packet number", gap),
        ("PATH_CHALLENGE", |peer, n| {
            send(peer, Frame::PathChallenge(Frame::path_data(n)));
        }),
        ("as many PATH_CHALLENGEs in a packet as are allowed", |peer, n| {
            send_challenges(peer, n, MOST);
        }),
        ("the server's IDs are retired as they come", retire_as_they_come),
        ("DATA_BLOCKED", |peer, n| send(peer, Frame::DataBlocked(n))),
        ("PATH_RESPONSE", |peer, n| {
            send(peer, Frame::PathResponse(Frame::path_data(n)));
        }),
        ("key updates", |peer, n| {
            if n % BURST == 1 {
                peer.client.update_keys();
            }
            send(peer, Frame::Ping);
        }),
    ];
    let results = floods.map(|(what, packets)| check_filled(what, packets).err());
    let wrong: Vec<_> = results.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
