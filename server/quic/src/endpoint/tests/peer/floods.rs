//! Frames and packets without end: the connection is closed, or what the endpoint keeps of it stays the same.

mod frames;
mod gaps;
mod packets;
mod withheld;

use super::*;

/// Packets before what the endpoint holds is noted, so that tables and queues have their sizes.
const WARM_UP: u64 = 1_000;
/// Packets of a flood behind that.
const FLOOD: u64 = 10_000;
/// Packets between two turns of the endpoint.
const BURST: u64 = 50;
/// Growth that is none, bytes: less than two for each packet of the flood.
const FLAT: i64 = 16 << 10;
/// Frames about the connection as a whole that a packet may contain.
const MOST: u64 = 32;
/// Time between two turns.
const STEP: Duration = Duration::from_millis(5);

/// Packets of a flood, by number.
type Packets = fn(&mut Peer, u64);

/// Result of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The endpoint goes on, and holds no more than before.
    Flat,
    /// The endpoint closes the connection, with this code of the transport.
    Closed(u64),
}

struct Flood {
    what: &'static str,
    /// Whether the client acknowledges what the server sends.
    acks: bool,
    packets: Packets,
    end: End,
}

fn flood(what: &'static str, acks: bool, packets: Packets, end: End) -> Flood {
    Flood { what, acks, packets, end }
}

/// Runs packets of a flood. Time passes, so that the server's timers do what they do.
fn run(attack: &mut Attack, peer: &mut Peer, packets: Packets, numbers: std::ops::Range<u64>) {
    for number in numbers {
        packets(peer, number);
        if number % BURST == 0 {
            attack.speak(peer);
            attack.pass(STEP, peer);
            peer.client.frames.retain(|frame| {
                matches!(frame, Frame::Close { .. } | Frame::NewConnectionId { .. })
            });
        }
    }
}

/// Floods an endpoint on a connection of its own, beside an honest client.
fn check(flood: &Flood, setup: Setup) -> Result<(), String> {
    let mut attack = Attack::new(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    attack.check_honest(&mut honest);
    let mut peer = attack.connect(PEER, setup);
    peer.client.policy.acks = flood.acks;
    run(&mut attack, &mut peer, flood.packets, 1..WARM_UP);
    let before = attack.held;
    run(&mut attack, &mut peer, flood.packets, WARM_UP..WARM_UP + FLOOD);
    let grown = attack.held - before;
    let closed = peer.client.closed();
    attack.check_honest(&mut honest);
    attack.endpoint().check();
    let end = match closed {
        None if grown <= FLAT => End::Flat,
        Some((false, code)) => End::Closed(code),
        _ => return Err(format!("{}: {closed:x?}, {grown} bytes more", flood.what)),
    };
    if end == flood.end && grown <= FLAT {
        return Ok(());
    }
    Err(format!("{}: {end:x?}, not {:x?}; {grown} bytes more", flood.what, flood.end))
}

fn check_all(floods: Vec<Flood>) {
    let results = (1..).zip(floods);
    let wrong: Vec<_> =
        results.filter_map(|(number, flood)| check(&flood, Setup::new(number)).err()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn send(peer: &mut Peer, frame: Frame) {
    peer.client.send(&[frame]);
}
