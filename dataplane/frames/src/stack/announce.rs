//! Announcements of the port's addresses to the link.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use smoltcp::wire::{ArpOperation, NdiscNeighborFlags};

use super::Stack;
use super::frame_writer::{group_mac, solicited_node};
use super::ndp::ALL_NODES;
use crate::address::MacAddr;
use crate::checksum::Sum;
use crate::layout::{IPV6, ethertype, protocol};

/// Time between reports of group membership, milliseconds: half of what switches wait for one (RFC 3810 §9.4).
const PERIOD: u64 = 125_000;

/// The group of MLDv2 routers, which snooping switches listen to as well.
const MLD_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// Hop-by-hop header of MLD: ICMPv6 follows; router alert, and two bytes of padding (RFC 2711 §2.1).
const ROUTER_ALERT: [u8; 8] = [protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0];

/// Type of MLDv2 reports.
const REPORT: u8 = 143;
/// Header of a report, bytes.
const REPORT_HEADER: usize = 8;
/// A group's record in a report, without sources, bytes.
const RECORD: usize = 20;
/// Kind of a record: the host listens to the group, whatever the source.
const EXCLUDES_NONE: u8 = 4;

impl Stack {
    /// Announces the addresses once per link-up, so that switches and neighbours learn of a port that took them over, and
    /// reports the port's multicast groups from time to time, since switches that snoop pass on no others.
    pub(super) fn announce(&mut self, now: u64, send: &mut dyn FnMut(&[u8])) {
        self.announcement = now + PERIOD;
        let config = Arc::clone(&self.config);
        if !std::mem::replace(&mut self.is_announced, true) {
            for (address, _) in &config.addresses {
                match *address {
                    IpAddr::V4(own) => {
                        let (all, unknown) = (MacAddr::BROADCAST, MacAddr([0; 6]));
                        let request = ArpOperation::Request;
                        self.writer.send_arp(all, request, own, unknown, own, send);
                    }
                    IpAddr::V6(own) => {
                        let flags = NdiscNeighborFlags::OVERRIDE;
                        self.advertise(group_mac(ALL_NODES), own, ALL_NODES, flags, send);
                    }
                }
            }
        }
        let own = || config.addresses.iter().filter_map(|(address, _)| v6(*address));
        let mut groups: Vec<_> = own().map(solicited_node).collect();
        groups.sort_unstable();
        groups.dedup();
        // Reports come from a link-local address, or from none (RFC 3810 §5.2.13).
        let source = own().find(Ipv6Addr::is_unicast_link_local);
        if !groups.is_empty() {
            self.report(source.unwrap_or(Ipv6Addr::UNSPECIFIED), &groups, send);
        }
    }

    /// Sends an MLDv2 report of these groups (RFC 3810 §5.2).
    fn report(&mut self, source: Ipv6Addr, groups: &[Ipv6Addr], send: &mut dyn FnMut(&[u8])) {
        let payload = ROUTER_ALERT.len() + REPORT_HEADER + RECORD * groups.len();
        let len = IPV6 + payload;
        let to = group_mac(MLD_ROUTERS);
        let (Ok(payload_len), Ok(count)) = (u16::try_from(payload), u16::try_from(groups.len()))
        else {
            return;
        };
        self.writer.send(to, ethertype::IPV6, len, send, |packet| {
            packet[0] = 6 << 4;
            packet[4..6].copy_from_slice(&payload_len.to_be_bytes());
            packet[6] = protocol::HOP_BY_HOP;
            packet[7] = 1;
            packet[8..24].copy_from_slice(&source.octets());
            packet[24..40].copy_from_slice(&MLD_ROUTERS.octets());
            let (addresses, payload) = packet[8..].split_at_mut(IPV6 - 8);
            let (options, report) = payload.split_at_mut(ROUTER_ALERT.len());
            options.copy_from_slice(&ROUTER_ALERT);
            report[0] = REPORT;
            report[6..8].copy_from_slice(&count.to_be_bytes());
            for (record, group) in report[REPORT_HEADER..].chunks_exact_mut(RECORD).zip(groups) {
                record[0] = EXCLUDES_NONE;
                record[4..].copy_from_slice(&group.octets());
            }
            let checksum = Sum::default()
                .add(addresses)
                .add_word(payload_len - 8)
                .add_word(u16::from(protocol::ICMPV6))
                .add(report)
                .checksum();
            report[2..4].copy_from_slice(&checksum.to_be_bytes());
        });
    }
}

fn v6(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V6(address) => Some(address),
        IpAddr::V4(_) => None,
    }
}
