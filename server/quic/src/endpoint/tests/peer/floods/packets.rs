//! Packets that the server cannot use.

use super::*;

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
        let packet = peer.client.packet(PacketKind::OneRtt, &[Frame::Ping]);
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
        let packet = peer.client.packet_numbered(PacketKind::OneRtt, number, &[Frame::Ping]);
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
