//! ARP (RFC 826): replies for the port's addresses, and answers to our questions.

use std::net::IpAddr;

use smoltcp::wire::{ArpOperation, ArpPacket, ArpRepr};

use super::Stack;
use crate::address::MacAddr;
use crate::config::is_host_v4;
use crate::parse::Arp;

impl Stack {
    /// Processes an ARP packet whose target is an address of the port.
    pub(super) fn on_arp(&mut self, arp: &Arp<'_>, now: u64, send: &mut dyn FnMut(&[u8])) {
        let packet = ArpPacket::new_checked(arp.packet);
        let Ok(ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr,
            source_protocol_addr: sender,
            target_hardware_addr,
            target_protocol_addr: own,
        }) = packet.and_then(|packet| ArpRepr::parse(&packet))
        else {
            self.counters.malformed += 1;
            return;
        };
        let mac = MacAddr(source_hardware_addr.0);
        // Replies go to who sent the frame, nobody else. Its answers may be about an address that routers share (RFC 5798).
        let is_stated = operation != ArpOperation::Request || mac == arp.source_mac;
        if !is_stated || !mac.is_unicast() || mac == self.config.mac {
            self.counters.unsolicited += 1;
            return;
        }
        if self.config.owns(IpAddr::V4(sender)) {
            self.counters.address_conflicts += 1;
            return;
        }
        // A station that asks whether the address is free has none yet (RFC 5227 §2.1.1).
        let is_probe = sender.is_unspecified() && operation == ArpOperation::Request;
        let is_neighbor = is_host_v4(sender) && self.config.is_on_link(IpAddr::V4(sender));
        if !is_probe && !is_neighbor {
            self.counters.unsolicited += 1;
            return;
        }
        match operation {
            ArpOperation::Request if self.may_reply(IpAddr::V4(sender), mac, now) => {
                self.counters.arp_replies += 1;
                self.writer.send_arp(mac, ArpOperation::Reply, own, mac, sender, send);
            }
            ArpOperation::Request => {}
            ArpOperation::Reply if !arp.to_group && target_hardware_addr.0 == self.config.mac.0 => {
                self.on_answer(IpAddr::V4(sender), mac, now);
            }
            ArpOperation::Reply => self.counters.unsolicited += 1,
            ArpOperation::Unknown(_) => self.counters.ignored += 1,
        }
    }
}
