//! Neighbour discovery (RFC 4861): advertisements for the port's addresses, and answers to our questions.

use std::net::{IpAddr, Ipv6Addr};

use smoltcp::wire::{EthernetAddress, Icmpv6Repr, NdiscNeighborFlags, NdiscRepr};

use super::Stack;
use super::frame_writer::{NDP_HOP_LIMIT, group_mac, solicited_node};
use crate::address::MacAddr;
use crate::parse::Icmp;

/// The group of all hosts of the link.
pub(super) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A question for the Ethernet address of `target` (RFC 4861 §4.3).
pub(super) struct Solicitation<'a> {
    pub(super) source: Ipv6Addr,
    pub(super) destination: Ipv6Addr,
    pub(super) target: Ipv6Addr,
    /// Ethernet address that the asker states.
    pub(super) lladdr: Option<&'a [u8]>,
}

impl Stack {
    /// Replies to a question for an address of the port.
    pub(super) fn on_solicitation(
        &mut self,
        icmp: &Icmp<'_>,
        solicitation: &Solicitation<'_>,
        now: u64,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let Solicitation { source, destination, target, lladdr } = *solicitation;
        let mac = icmp.source_mac;
        // From :: somebody asks whether the address is in use (RFC 4862 §5.4), and has none to state.
        let is_probe = source.is_unspecified();
        let is_valid = icmp.hop_limit == NDP_HOP_LIMIT
            && match lladdr {
                Some(lladdr) => !is_probe && lladdr == mac.0,
                None => true,
            }
            && (!is_probe || destination == solicited_node(target))
            && (is_probe || self.config.is_on_link(IpAddr::V6(source)));
        if !is_valid {
            self.counters.unsolicited += 1;
            return;
        }
        if !self.config.owns(IpAddr::V6(target)) {
            self.counters.ignored += 1;
            return;
        }
        if !self.may_reply(IpAddr::V6(source), mac, now) {
            return;
        }
        self.counters.ndp_replies += 1;
        if is_probe {
            let flags = NdiscNeighborFlags::OVERRIDE;
            self.advertise(group_mac(ALL_NODES), target, ALL_NODES, flags, send);
        } else {
            let flags = NdiscNeighborFlags::SOLICITED | NdiscNeighborFlags::OVERRIDE;
            self.advertise(mac, target, source, flags, send);
        }
    }

    /// Sends the port's Ethernet address for an address of the port.
    pub(super) fn advertise(
        &mut self,
        mac: MacAddr,
        own: Ipv6Addr,
        destination: Ipv6Addr,
        flags: NdiscNeighborFlags,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let message = Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert {
            flags,
            target_addr: own,
            lladdr: Some(EthernetAddress(self.config.mac.0).into()),
        });
        self.writer.send_icmpv6(mac, own, destination, &message, send);
    }

    /// Takes the answer of a neighbour.
    pub(super) fn on_advertisement(
        &mut self,
        icmp: &Icmp<'_>,
        target: Ipv6Addr,
        flags: NdiscNeighborFlags,
        lladdr: Option<&[u8]>,
        now: u64,
    ) {
        // One that was asked itself may leave its address out (RFC 4861 §4.4). It may also state one that routers share
        // (RFC 5798).
        let stated = match lladdr {
            Some(lladdr) => <[u8; 6]>::try_from(lladdr).ok().map(MacAddr),
            None => Some(icmp.source_mac),
        };
        if self.config.owns(IpAddr::V6(target)) {
            self.counters.address_conflicts += 1;
            return;
        }
        let is_answer =
            icmp.hop_limit == NDP_HOP_LIMIT && flags.contains(NdiscNeighborFlags::SOLICITED);
        match stated {
            Some(mac) if is_answer && mac.is_unicast() && mac != self.config.mac => {
                self.on_answer(IpAddr::V6(target), mac, now);
            }
            _ => self.counters.unsolicited += 1,
        }
    }
}
