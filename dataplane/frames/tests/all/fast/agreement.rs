//! The parser and the writer against those of smoltcp.

use proptest::collection::vec;
use proptest::prelude::*;
use sluicegate_frames::Verdict;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr,
    UdpPacket, UdpRepr,
};

use crate::fast::fixture::{UDP_V4, UDP_V6, parse, v4, v6};

/// Returns the payload of a UDP datagram without options or extension headers, as smoltcp parses it.
fn smoltcp_payload(frame: &[u8]) -> Option<Vec<u8>> {
    let checksums = ChecksumCapabilities::default();
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    match ethernet.ethertype() {
        EthernetProtocol::Ipv4 => {
            let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
            let repr = Ipv4Repr::parse(&ip, &checksums).ok()?;
            let udp = UdpPacket::new_checked(ip.payload()).ok()?;
            let addresses = (repr.src_addr.into(), repr.dst_addr.into());
            UdpRepr::parse(&udp, &addresses.0, &addresses.1, &checksums).ok()?;
            let whole = !ip.more_frags() && ip.frag_offset() == 0;
            let is_udp = whole && repr.next_header == IpProtocol::Udp;
            is_udp.then(|| udp.payload().to_vec())
        }
        EthernetProtocol::Ipv6 => {
            let ip = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
            let repr = Ipv6Repr::parse(&ip).ok()?;
            let udp = UdpPacket::new_checked(ip.payload()).ok()?;
            let addresses = (repr.src_addr.into(), repr.dst_addr.into());
            UdpRepr::parse(&udp, &addresses.0, &addresses.1, &checksums).ok()?;
            (repr.next_header == IpProtocol::Udp).then(|| udp.payload().to_vec())
        }
        _ => None,
    }
}

proptest! {
    #[test]
    fn smoltcp_parses_what_is_written(payload in vec(any::<u8>(), 0..1400)) {
        prop_assert_eq!(smoltcp_payload(&v4(&payload)), Some(payload.clone()));
        prop_assert_eq!(smoltcp_payload(&v6(&payload)), Some(payload));
    }

    // Sealed or not: smoltcp must find the same payload in whatever is accepted.
    #[test]
    fn smoltcp_accepts_what_is_accepted(
        is_v4: bool,
        changes in vec((0usize..60, any::<u8>()), 0..3),
        sealed: bool,
    ) {
        let (mut frame, udp_at) = if is_v4 { (v4(b"payload"), UDP_V4) } else { (v6(b"payload"), UDP_V6) };
        for (offset, byte) in changes {
            if let Some(place) = frame.get_mut(offset) {
                *place = byte;
            }
        }
        let stated = usize::from(u16::from_be_bytes([frame[udp_at + 4], frame[udp_at + 5]]));
        if sealed && (8..=frame.len() - udp_at).contains(&stated) {
            frame[14] = if is_v4 { 0x45 } else { 0x60 };
            frame = crate::fast::fixture::seal_udp(frame, udp_at);
            if is_v4 {
                frame = crate::fast::fixture::seal_ip(frame);
            }
        }
        // Extension headers and tags are beyond this comparison.
        if let Verdict::Udp(udp) = parse(None, &frame)
            && (is_v4 || frame[20] == 17)
            && udp.payload.start == udp_at + 8
        {
            prop_assert_eq!(smoltcp_payload(&frame), Some(frame[udp.payload].to_vec()));
        }
    }
}
