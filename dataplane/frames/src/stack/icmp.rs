//! ICMP (RFC 792, RFC 4443): replies to echo requests; reports of packets too big.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, NdiscRepr};

use super::Stack;
use super::ndp::Solicitation;
use crate::checksum::Sum;
use crate::parse::{Icmp, SlowKind};

impl Stack {
    /// Processes an ICMP message for IPv4 from another host to an address of the port.
    pub(super) fn on_icmpv4(
        &mut self,
        icmp: &Icmp<'_>,
        source: Ipv4Addr,
        own: Ipv4Addr,
        now: u64,
        send: &mut dyn FnMut(&[u8]),
    ) {
        if icmp.kind == SlowKind::TooBig {
            if Sum::default().add(icmp.message).is_right() {
                self.on_fragmentation_needed(icmp.message, now);
            } else {
                self.counters.malformed += 1;
            }
            return;
        }
        let packet = Icmpv4Packet::new_checked(icmp.message);
        let parsed =
            packet.and_then(|packet| Icmpv4Repr::parse(&packet, &ChecksumCapabilities::default()));
        let Ok(Icmpv4Repr::EchoRequest { ident, seq_no, data }) = parsed else {
            self.counters.malformed += 1;
            return;
        };
        let reply = Icmpv4Repr::EchoReply { ident, seq_no, data };
        if self.may_echo(now) {
            self.writer.send_icmpv4(icmp.source_mac, own, source, &reply, send);
        }
    }

    /// Processes an ICMP message for IPv6 to an address of the port or to its solicited-node group.
    pub(super) fn on_icmpv6(
        &mut self,
        icmp: &Icmp<'_>,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        now: u64,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let packet = Icmpv6Packet::new_checked(icmp.message);
        let checksums = ChecksumCapabilities::default();
        let parsed =
            packet.and_then(|packet| Icmpv6Repr::parse(&source, &destination, &packet, &checksums));
        let Ok(message) = parsed else {
            self.counters.malformed += 1;
            return;
        };
        let to_own = self.config.owns(IpAddr::V6(destination));
        match message {
            Icmpv6Repr::EchoRequest { ident, seq_no, data } if to_own => {
                let reply = Icmpv6Repr::EchoReply { ident, seq_no, data };
                if self.may_echo(now) {
                    self.writer.send_icmpv6(icmp.source_mac, destination, source, &reply, send);
                }
            }
            Icmpv6Repr::PktTooBig { mtu, header, data } if to_own => {
                self.on_packet_too_big(mtu, &header, data, now);
            }
            Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, lladdr }) => {
                let solicitation = Solicitation {
                    source,
                    destination,
                    target: target_addr,
                    lladdr: lladdr.as_ref().map(|mac| mac.as_bytes()),
                };
                self.on_solicitation(icmp, &solicitation, now, send);
            }
            Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { flags, target_addr, lladdr })
                if to_own =>
            {
                let lladdr = lladdr.as_ref().map(|mac| mac.as_bytes());
                self.on_advertisement(icmp, target_addr, flags, lladdr, now);
            }
            _ => self.counters.ignored += 1,
        }
    }

    /// Takes a token for an echo reply.
    fn may_echo(&mut self, now: u64) -> bool {
        let may = self.echoes.take(now);
        if may {
            self.counters.echo_replies += 1;
        } else {
            self.counters.rate_limited += 1;
        }
        may
    }
}
