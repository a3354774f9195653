//! Packets that the server cannot use, frames of HTTP/3, and responses that wait.

use super::*;

const STREAM_LIMIT_ERROR: u64 = 0x4;

#[test]
fn packets_that_cannot_be_read_leave_nothing_behind() {
    let junk: Packets = |peer, n| {
        let mut packet = vec![0x5a; 100];
        packet[1..17].copy_from_slice(&peer.client.dcid);
        packet[17..25].copy_from_slice(&n.to_be_bytes());
        peer.client.queue(packet);
    };
    // Handshake packets for connections that are not there, in front of one that is.
    let foreign: Packets = |peer, n| {
        let mut datagram = Vec::new();
        for part in 0..20 {
            datagram.extend([0xe0, 0, 0, 0, 1, 8]);
            datagram.extend((n * 20 + part).to_be_bytes());
            datagram.extend([0, 0x40, 25]);
            datagram.extend([7; 25]);
        }
        let packet = peer.client.packet(Kind::OneRtt, &[Frame::Ping]);
        datagram.extend(packet);
        peer.client.queue(datagram);
    };
    // The same, behind a packet with the connection's own ID.
    let own_first: Packets = |peer, n| {
        let mut datagram = vec![0xe0, 0, 0, 0, 1, 16];
        datagram.extend(&peer.client.dcid);
        datagram.extend([0, 0x40, 25]);
        datagram.extend([7; 25]);
        for part in 0..20 {
            datagram.extend([0xe0, 0, 0, 0, 1, 8]);
            datagram.extend((n * 20 + part).to_be_bytes());
            datagram.extend([0, 0x40, 25]);
            datagram.extend([7; 25]);
        }
        peer.client.queue(datagram);
    };
    let copies: Packets = |peer, _| {
        let number = 100;
        let packet = peer.client.packet_numbered(Kind::OneRtt, number, &[Frame::Ping]);
        peer.client.queue(packet);
    };
    let padding: Packets = |peer, _| send(peer, Frame::Padding(1000));
    check_all(vec![
        flood("junk", true, junk, End::Flat),
        flood("coalesced with foreign IDs", true, foreign, End::Flat),
        flood("foreign IDs behind its own", true, own_first, End::Flat),
        flood("copies", true, copies, End::Flat),
        flood("padding", true, padding, End::Flat),
    ]);
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
    check_all(vec![
        flood("frames of the control stream", true, control, End::Flat),
        flood("empty unknown frames", true, unknown, End::Flat),
        flood("streams of unknown types", true, streams, End::Closed(STREAM_LIMIT_ERROR)),
    ]);
}

/// The client lets the server send nothing of many large responses.
#[test]
fn responses_that_nobody_reads_wait_in_a_bounded_buffer() {
    use sluicegate_raw_client::Parameters;
    let mut attack = Attack::new(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    attack.check_honest(&mut honest);
    let mut setup = Setup::new(1);
    setup.parameters = Parameters::plain().with(Parameters::MAX_STREAM_DATA, 0);
    let mut peer = attack.connect(PEER, setup);
    let before = attack.held;
    let limits = &attack.endpoint().settings.limits;
    let (streams, buffer) = (limits.max_concurrent_streams, limits.connection_send_buffer);
    for stream in 0..streams {
        attack.ask(&mut peer, 4 * stream, 10_000_000);
    }
    let asked = attack.held - before;
    let most = i64::try_from(2 * buffer + streams * 4096).unwrap();
    assert!(asked <= most, "{asked} bytes for {streams} streams, not {most}");
    for _ in 0..1000 {
        send(&mut peer, Frame::Ping);
        attack.pass(STEP, &mut peer);
    }
    let grown = attack.held - before - asked;
    assert!(grown <= FLAT, "{grown} bytes more");
    attack.check_honest(&mut honest);
}
