//! Reports that a datagram was too big for the path (RFC 1191, RFC 8201).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use smoltcp::wire::{IpProtocol, Ipv6Repr};

use super::{Stack, StackEvent};
use crate::config::{is_host_v4, is_host_v6};
use crate::layout::{IPV4, IPV6, UDP, protocol};
use crate::quote::Quote;

/// Smallest largest datagram of a path that QUIC can use (RFC 9000 §14).
const MIN_SIZE: usize = 1200;

/// Length of the ICMP header in front of the quoted packet, bytes.
const ICMP: usize = 8;

/// A report about a packet of ours.
struct Report {
    local: SocketAddr,
    peer: SocketAddr,
    /// Length of the IP and UDP headers, bytes.
    headers: usize,
    /// Length of the quoted packet, bytes.
    len: usize,
    /// MTU that the router reports, bytes.
    mtu: usize,
    /// First bytes of the quoted payload.
    quote: Quote,
}

impl Stack {
    /// Processes "fragmentation needed" of IPv4, whose checksum is right.
    pub(super) fn on_fragmentation_needed(&mut self, message: &[u8], now: u64) {
        let report = message.split_first_chunk::<ICMP>().and_then(|([.., high, low], quote)| {
            let mtu = usize::from(u16::from_be_bytes([*high, *low]));
            self.report_v4(mtu, quote)
        });
        self.on_report(report, now);
    }

    fn report_v4(&self, mtu: usize, quote: &[u8]) -> Option<Report> {
        let (ip, rest) = quote.split_first_chunk::<IPV4>()?;
        let (udp, payload) = rest.split_first_chunk::<UDP>()?;
        let [
            version,
            _,
            l0,
            l1,
            id0,
            id1,
            flags,
            offset,
            _,
            kind,
            _,
            _,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ] = *ip;
        // As write_headers writes it, apart from fields that routers change.
        let is_ours = (version, id0, id1, flags, offset, kind)
            == (0x45, 0, 0, 0x40, 0, protocol::UDP)
            && self.config.owns(IpAddr::V4(Ipv4Addr::new(s0, s1, s2, s3)));
        let peer = Ipv4Addr::new(d0, d1, d2, d3);
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        let fits_udp = len == IPV4 + usize::from(u16::from_be_bytes([udp[4], udp[5]]));
        (is_ours && fits_udp && is_host_v4(peer)).then(|| Report {
            local: SocketAddr::new(Ipv4Addr::new(s0, s1, s2, s3).into(), port(udp, 0)),
            peer: SocketAddr::new(peer.into(), port(udp, 2)),
            headers: IPV4 + UDP,
            len,
            mtu,
            quote: Quote::new(payload),
        })
    }

    /// Processes "packet too big" of IPv6. `header` and `data` are the quoted packet.
    pub(super) fn on_packet_too_big(&mut self, mtu: u32, header: &Ipv6Repr, data: &[u8], now: u64) {
        let report = self.report_v6(mtu, header, data);
        self.on_report(report, now);
    }

    fn report_v6(&self, mtu: u32, header: &Ipv6Repr, data: &[u8]) -> Option<Report> {
        let (udp, payload) = data.split_first_chunk::<UDP>()?;
        let is_ours = header.next_header == IpProtocol::Udp
            && header.payload_len == usize::from(u16::from_be_bytes([udp[4], udp[5]]))
            && self.config.owns(IpAddr::V6(header.src_addr))
            && is_host_v6(header.dst_addr);
        let socket = |address: Ipv6Addr, port| {
            let link_local = address.is_unicast_link_local();
            let scope_id = if link_local { self.config.scope_id } else { 0 };
            SocketAddr::V6(SocketAddrV6::new(address, port, 0, scope_id))
        };
        is_ours.then(|| Report {
            local: socket(header.src_addr, port(udp, 0)),
            peer: socket(header.dst_addr, port(udp, 2)),
            headers: IPV6 + UDP,
            len: IPV6 + header.payload_len,
            mtu: usize::try_from(mtu).unwrap_or(usize::MAX),
            quote: Quote::new(payload),
        })
    }

    /// Makes an event of a report about a packet that the port can have sent and that is longer than the reported MTU and
    /// than the datagrams which QUIC always needs.
    fn on_report(&mut self, report: Option<Report>, now: u64) {
        let report = report.filter(|report| {
            let shortest = report.headers + MIN_SIZE;
            report.len > report.mtu.max(shortest) && report.len <= self.config.mtu
        });
        let Some(report) = report else {
            self.counters.too_big_forged += 1;
            return;
        };
        let event = StackEvent::TooBig {
            local: report.local,
            peer: report.peer,
            size: report.len - report.headers,
            max_size: report.mtu.saturating_sub(report.headers).max(MIN_SIZE),
            quote: report.quote,
        };
        self.push_event(event, now);
    }
}

fn port(udp: &[u8; UDP], at: usize) -> u16 {
    u16::from_be_bytes([udp[at], udp[at + 1]])
}
