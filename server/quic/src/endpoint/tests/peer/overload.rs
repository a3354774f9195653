//! Clients whose datagrams achieve nothing, at a worker that is overloaded.

use super::*;

/// Duration of a receive phase that shows overload if others follow it at once.
const LONG: Duration = Duration::from_millis(11);
/// Datagrams of a flood.
const FLOOD: u64 = 5_000;
/// Most of them that are taken.
const TAKEN: u64 = 300;

fn dropped(attack: &Attack) -> u64 {
    attack.endpoint().counters.dropped[DropReason::NoProgress]
}

/// Ends receive phases that take `spent` each, every 20 ms.
fn end_phases(attack: &mut Attack, phases: u32, spent: Duration) {
    attack.metered(|endpoint, _, now| {
        for phase in 0..phases {
            endpoint.end_receive(spent, now + phase * Duration::from_millis(20));
        }
    });
}

/// Has the worker be overloaded for the next second.
fn overload(attack: &mut Attack) {
    end_phases(attack, 3, LONG);
}

/// Sends PINGs in datagrams of their own. Returns how many are dropped.
fn flood(attack: &mut Attack, peer: &mut Peer) -> u64 {
    let before = dropped(attack);
    (0..FLOOD).for_each(|_| peer.client.send(&[Frame::Ping]));
    attack.exchange(peer);
    dropped(attack) - before
}

#[test]
fn overloaded_worker_drops_datagrams_that_achieve_nothing() {
    let mut attack = Attack::new(|_| {});
    let mut peer = attack.connect(PEER, Setup::new(1));
    assert_eq!(flood(&mut attack, &mut peer), 0);
    overload(&mut attack);
    assert_eq!(flood(&mut attack, &mut peer), FLOOD);
    // Time gives a little credit.
    attack.pass(Duration::from_millis(50), &mut peer);
    assert_eq!(flood(&mut attack, &mut peer), FLOOD - 5);
    attack.pass(Duration::from_secs(1), &mut peer);
    assert_eq!(flood(&mut attack, &mut peer), 0);
    // The connection is none the worse for it.
    attack.check_honest(&mut peer);
    assert_eq!(peer.client.closed(), None);
}

#[test]
fn who_connects_again_achieves_no_more() {
    let mut attack = Attack::new(|_| {});
    for number in 0..10 {
        overload(&mut attack);
        let mut peer = attack.connect(PEER, Setup::new(number));
        let lost = flood(&mut attack, &mut peer);
        assert!(lost >= FLOOD - TAKEN, "{lost}");
    }
}

/// Downloads, uploads and small requests of clients beside a flood, all at an overloaded worker.
#[test]
fn overloaded_worker_takes_everything_of_honest_clients() {
    let mut attack = Attack::new(|_| {});
    overload(&mut attack);
    let mut peer = attack.connect(PEER, Setup::new(1));
    let mut honest = attack.connect(HONEST, Setup::new(77));
    let before = flood(&mut attack, &mut peer);
    let expected = dropped(&attack);
    attack.ask(&mut honest, 0, 3_000_000);
    for _ in 0..200 {
        overload(&mut attack);
        attack.pass(Duration::from_millis(20), &mut honest);
    }
    assert_eq!(honest.response(0), (Some(200), 3_000_000));
    for number in 1..500 {
        overload(&mut attack);
        attack.ask(&mut honest, 4 * number, 1);
        assert_eq!(honest.response(4 * number), (Some(200), 1));
    }
    assert_eq!(dropped(&attack), expected);
    assert!(before > 0);
}

/// Bodies whose every byte has a frame of its own, empty frames, and bodies of small messages.
#[test]
fn overloaded_worker_drops_datagrams_with_little_in_many_frames() {
    let mut attack = Attack::new(|_| {});
    let head = [(":method", "POST"), (":path", "/bytes/1")];
    let head = http3::headers(&[&head[..], &[(":scheme", "https"), (":authority", "a")]].concat());
    let mut lost = |number, message: &[u8], frames| {
        let mut peer = attack.connect(PEER, Setup::new(number));
        peer.client.write(0, &head, false);
        attack.exchange(&mut peer);
        overload(&mut attack);
        let before = dropped(&attack);
        for _ in 0..100 {
            let frames = http3::frame(0, message).repeat(frames);
            peer.client.write(0, &frames, false);
            attack.exchange(&mut peer);
        }
        assert_eq!(peer.client.closed(), None);
        dropped(&attack) - before
    };
    assert!(lost(1, b"a", 350) > 85);
    assert!(lost(2, b"", 500) > 85);
    assert_eq!(lost(3, b"messages", 110), 0);
    assert_eq!(lost(4, &[7; 1000], 1), 0);
}

#[test]
fn forged_datagrams_cost_the_connection_that_they_name_nothing() {
    let mut attack = Attack::new(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    let mut peer = attack.connect(PEER, Setup::new(1));
    overload(&mut attack);
    for _ in 0..1_000 {
        let mut forged = honest.client.packet(PacketKind::OneRtt, &[Frame::Ping]);
        *forged.last_mut().unwrap() ^= 1;
        peer.client.queue(forged);
    }
    attack.exchange(&mut peer);
    assert_eq!(dropped(&attack), 0);
    attack.ask(&mut honest, 0, 10_000);
    assert_eq!(honest.response(0), (Some(200), 10_000));
}

/// An upload of which much was lost: little of what the client sends is new, and some of it comes twice.
#[test]
fn overloaded_worker_takes_what_an_upload_sends_again() {
    const CHUNK: u64 = 1_000;
    let mut attack = Attack::new(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    overload(&mut attack);
    for _ in 0..4 {
        for chunk in (0..200).rev() {
            honest.client.send(&[Frame::Stream {
                stream: 0,
                offset: chunk * CHUNK,
                data: vec![0x40; usize::try_from(CHUNK).unwrap()],
                fin: false,
            }]);
        }
    }
    attack.exchange(&mut honest);
    assert_eq!(dropped(&attack), 0);
    assert_eq!(honest.client.closed(), None);
}

#[test]
fn long_phases_with_time_between_them_are_no_overload() {
    let mut attack = Attack::new(|_| {});
    let mut peer = attack.connect(PEER, Setup::new(1));
    // Half of the time, or a long phase now and then.
    end_phases(&mut attack, 100, Duration::from_millis(10));
    assert_eq!(flood(&mut attack, &mut peer), 0);
    attack.pass(Duration::from_secs(3), &mut peer);
    for _ in 0..10 {
        end_phases(&mut attack, 1, Duration::from_millis(100));
        attack.pass(Duration::from_millis(250), &mut peer);
    }
    assert_eq!(flood(&mut attack, &mut peer), 0);
    // Short phases that follow each other closely.
    attack.metered(|endpoint, _, now| {
        for phase in 0..500 {
            let end = now + phase * Duration::from_micros(100);
            endpoint.end_receive(Duration::from_micros(60), end);
        }
    });
    assert_eq!(flood(&mut attack, &mut peer), FLOOD);
}

#[test]
fn worker_is_never_overloaded_above_100_percent() {
    let mut attack = Attack::new(|s| s.limits.overload_above = 100);
    let mut peer = attack.connect(PEER, Setup::new(1));
    end_phases(&mut attack, 100, Duration::from_millis(20));
    assert_eq!(flood(&mut attack, &mut peer), 0);
}
