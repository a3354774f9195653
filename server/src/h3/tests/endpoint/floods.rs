//! Streams, frames of HTTP/3 and responses without end: the connection is closed, or what the server keeps of it stays bounded.

use std::ops::Range;

use sluicegate_base::observe::memory_budget::MemoryBudget;
use sluicegate_quic::testing::Peer;
use sluicegate_raw_client::{Frame, Parameters, Setup, http3};

use super::*;

const STREAM_LIMIT_ERROR: u64 = 0x4;
/// H3_REQUEST_REJECTED.
const REQUEST_REJECTED: u64 = 0x10b;
/// Packets before what the endpoint holds is noted, so that tables and queues have their sizes.
const WARM_UP: u64 = 1_000;
/// Packets of a flood behind that.
const FLOOD: u64 = 10_000;
/// Packets between two turns of the endpoint.
const BURST: u64 = 50;
/// Growth that is none, bytes: less than two for each packet of the flood.
const FLAT: i64 = 16 << 10;
/// Time between two turns.
const STEP: Duration = Duration::from_millis(5);
/// Bytes that a client may send on a stream, and a piece of them.
const WINDOW: usize = 256 << 10;
const PIECE: usize = 1024;
/// Bytes that are left of requests without their first byte, at most.
const LEFT: i64 = 128 << 10;

/// Packets of a flood, by number.
type Packets = fn(&mut Peer, u64);

/// Runs packets of a flood. Time passes, so that the server's timers do what they do.
fn run(attack: &mut Attack<Http3Session>, peer: &mut Peer, packets: Packets, numbers: Range<u64>) {
    for number in numbers {
        packets(peer, number);
        if number % BURST == 0 {
            attack.speak(peer);
            attack.pass(STEP, peer);
            peer.client.frames.retain(|frame| matches!(frame, Frame::Close { .. }));
        }
    }
}

/// Floods a server beside an honest client. Returns the code with which it closes the connection.
fn flood(packets: Packets) -> Option<(bool, u64)> {
    let mut attack = attack(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    attack.check_honest(&mut honest);
    let mut peer = attack.connect(PEER, Setup::new(1));
    run(&mut attack, &mut peer, packets, 1..WARM_UP);
    let before = attack.held;
    run(&mut attack, &mut peer, packets, WARM_UP..WARM_UP + FLOOD);
    let grown = attack.held - before;
    assert!(grown <= FLAT, "{grown} bytes more");
    attack.check_honest(&mut honest);
    attack.endpoint().check();
    peer.client.closed()
}

#[test]
fn http3_frames_without_end_leave_nothing_behind() {
    let control: Packets = |peer, n| {
        let update = [&[0][..], b"u=1"].concat();
        let frames = [
            http3::frame(0x21, &[]),
            http3::frame(0xf_0700, &update),
            http3::frame(0x7, &[0]),
            http3::frame(0xd, &[9]),
        ];
        let frame = &frames[usize::try_from(n % 4).unwrap()];
        peer.client.write(http3::CONTROL, frame, false);
    };
    // In front of a request that never comes.
    let unknown: Packets = |peer, _| {
        let frames = [0x21, 0].repeat(200);
        peer.client.write(0, &frames, false);
    };
    let streams: Packets = |peer, n| {
        peer.client.write(4 * n + 6, &[0x21, 1, 2, 3], true);
    };
    assert_eq!(flood(control), None);
    assert_eq!(flood(unknown), None);
    assert_eq!(flood(streams), Some((false, STREAM_LIMIT_ERROR)));
}

/// The client lets the server send nothing of many large responses.
#[test]
fn responses_that_nobody_reads_wait_in_a_bounded_buffer() {
    let mut attack = attack(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    attack.check_honest(&mut honest);
    let mut setup = Setup::new(1);
    setup.parameters = Parameters::plain().with(Parameters::MAX_STREAM_DATA, 0);
    let mut peer = attack.connect(PEER, setup);
    let before = attack.held;
    let limits = Config::embedded().limits;
    let (streams, buffer) = (limits.max_concurrent_streams, limits.connection_send_buffer);
    for stream in 0..streams {
        attack.ask(&mut peer, 4 * stream, 10_000_000);
    }
    let asked = attack.held - before;
    let most = i64::try_from(2 * buffer + streams * 4096).unwrap();
    assert!(asked <= most, "{asked} bytes for {streams} streams, not {most}");
    for _ in 0..1000 {
        peer.client.send(&[Frame::Ping]);
        attack.pass(STEP, &mut peer);
    }
    let grown = attack.held - before - asked;
    assert!(grown <= FLAT, "{grown} bytes more");
    attack.check_honest(&mut honest);
}

/// Requests whose first byte never arrives fill the connection's window; PINGs keep the connection. The second time their
/// streams' IDs are below those that have begun.
#[test]
fn requests_without_their_first_byte_are_rejected() {
    let mut attack = attack(|_| {});
    let mut peer = attack.connect(PEER, Setup::new(1));
    let rejected =
        |attack: &Attack<Http3Session>| attack.endpoint().shared().counters.stalled_heads;
    for (round, first) in [(0, 16), (1, 0)] {
        let before = attack.held;
        // The last stream leaves less than a packet of the connection's window, for the control stream.
        let end = |stream| WINDOW - if stream == first + 12 { PIECE } else { 0 };
        for stream in (first..first + 16).step_by(4) {
            for offset in (PIECE..end(stream)).step_by(PIECE) {
                let (offset, data, fin) = (offset as u64, vec![0; PIECE], false);
                let piece = Frame::Stream { stream, offset, data, fin };
                peer.client.send(&[piece]);
            }
            attack.exchange(&mut peer);
        }
        assert!(attack.held - before > 900 << 10);
        let mut passed = 0;
        while rejected(&attack) < 4 * (round + 1) {
            passed += 1;
            assert!(passed <= 80, "{} rejected", rejected(&attack));
            peer.client.send(&[Frame::Ping]);
            attack.pass(Duration::from_secs(1), &mut peer);
        }
        assert!(passed >= 60, "{passed} s");
        for stream in (first..first + 16).step_by(4) {
            let (code, size) = (REQUEST_REJECTED, end(stream) as u64);
            peer.client.send(&[Frame::ResetStream { stream, code, size }]);
        }
        for _ in 0..30 {
            peer.client.send(&[Frame::Ping]);
            attack.pass(Duration::from_secs(1), &mut peer);
        }
        let kept = attack.held - before;
        assert!(kept < LEFT, "{kept} bytes kept");
    }
    assert_eq!((peer.client.closed(), rejected(&attack)), (None, 8));
    attack.ask(&mut peer, 32, 1000);
    assert_eq!(peer.response(32), (Some(200), 1000));
}

/// The client receives a download, and acknowledges all of it but the packets with one of its first bytes. All behind it must be kept.
#[test]
fn downloads_behind_a_byte_that_is_never_acknowledged_are_bounded() {
    const MIB: usize = 1 << 20;
    const LENGTH: usize = 8 * MIB;
    let mut attack = attack(|settings| {
        settings.shared.memory = Arc::new(MemoryBudget::new(64 << 20));
    });
    let mut honest = attack.connect(HONEST, Setup::new(77));
    attack.check_honest(&mut honest);
    let mut peer = attack.connect(PEER, Setup::new(1));
    peer.client.withheld = Some(1000);
    let before = attack.held;
    attack.ask(&mut peer, 0, LENGTH);
    for _ in 0..200 {
        attack.pass(STEP, &mut peer);
    }
    let arrived = peer.client.streams[&0].bytes.len();
    assert!((MIB..3 * MIB).contains(&arrived), "{arrived} bytes arrived");
    let grown = attack.held - before;
    assert!(grown < 4 << 20, "{grown} bytes more");
    attack.check_honest(&mut honest);
    // The rest follows the acknowledgement.
    peer.client.withheld = None;
    for _ in 0..400 {
        attack.pass(STEP, &mut peer);
    }
    assert_eq!(peer.response(0), (Some(200), LENGTH));
}
