//! Sending: room in buffers of the port, headers in front, bursts to the queue.

use std::net::SocketAddr;
use std::time::Instant;

use sluicegate_dpdk::{Mbuf, TxOffload};
use sluicegate_frames::{
    IpChecksum, MAX_HEADERS, MacAddr, NextHop, TxChecksums, TxHeader, UdpChecksum, write_headers,
};

use super::core::Core;
use crate::egress::{Egress, NoRoom};
use crate::event::Event;
use crate::meta::{Budget, ListenerId, TxMeta};

/// Length of an Ethernet header, and with a VLAN tag.
const ETHERNET: u8 = 14;
const TAGGED: u8 = 18;
/// Bytes of IP and UDP header in front of a payload.
const V4_HEADERS: usize = 28;
const V6_HEADERS: usize = 48;

/// One transmission.
pub(super) struct Emission<'a> {
    core: &'a mut Core,
    budget: Budget,
    now_ms: u64,
    lent: Option<Lent>,
    /// Station that the last datagram went to, for those that follow to the same peer.
    last: Option<(SocketAddr, MacAddr)>,
}

/// A buffer handed out and not committed.
struct Lent {
    listener: ListenerId,
    bound: SocketAddr,
    mbuf: Mbuf,
}

impl<'a> Emission<'a> {
    pub(super) fn new(core: &'a mut Core, budget: Budget, now: Instant) -> Self {
        Self {
            now_ms: core.millis(now),
            core,
            budget,
            lent: None,
            last: None,
        }
    }

    /// Returns the station that frames to `peer` go to; asks for it where it is unknown.
    fn next_hop(&mut self, listener: ListenerId, peer: SocketAddr) -> Option<MacAddr> {
        if let Some((last, mac)) = self.last
            && last == peer
        {
            return Some(mac);
        }
        let Core {
            hops,
            shared,
            queue,
            outgoing,
            events,
            counters,
            ..
        } = &mut *self.core;
        let mut resolve = || {
            let mut send = |frame: &[u8]| outgoing.copy(queue, frame);
            shared.slow.resolve(peer.ip(), self.now_ms, &mut send)
        };
        let mac = match hops.lookup(peer.ip(), self.now_ms) {
            NextHop::Known(mac) => Some(mac),
            NextHop::Stale(mac) => resolve().or(Some(mac)),
            NextHop::Unresolved => resolve(),
            NextHop::NoRoute => {
                events.push(Event::Unreachable { listener, peer }, counters);
                None
            }
        };
        self.last = mac.map(|mac| (peer, mac));
        mac
    }

    /// Writes the headers of a datagram of `len` bytes. Returns false if it cannot leave.
    fn write(&mut self, lent: &mut Lent, len: usize, meta: &TxMeta) -> bool {
        let shared = &self.core.shared;
        let Some(source) = shared.source(lent.bound, meta.peer, meta.local) else {
            return false;
        };
        let offloads = shared.tx_checksum;
        let (source_mac, vlan) = (shared.config.mac, shared.config.vlan);
        let Some(destination_mac) = self.next_hop(lent.listener, meta.peer) else {
            return false;
        };
        let header = TxHeader {
            source_mac,
            destination_mac,
            vlan,
            source,
            destination: meta.peer,
            ecn: meta.ecn.bits(),
            hop_limit: TxHeader::HOP_LIMIT,
        };
        let checksums = if offloads {
            TxChecksums {
                ip: IpChecksum::Port,
                udp: UdpChecksum::Port,
            }
        } else {
            TxChecksums::SOFTWARE
        };
        let payload = MAX_HEADERS..MAX_HEADERS + len;
        let Ok(frame) = write_headers(lent.mbuf.bytes(), payload, &header, checksums) else {
            return false;
        };
        lent.mbuf.truncate(frame.end);
        lent.mbuf.skip(frame.start);
        let l2 = if vlan.is_some() { TAGGED } else { ETHERNET };
        lent.mbuf.offload(match meta.peer {
            _ if !offloads => TxOffload::None,
            SocketAddr::V4(_) => TxOffload::Ipv4(l2),
            SocketAddr::V6(_) => TxOffload::Ipv6(l2),
        });
        true
    }
}

impl Egress for Emission<'_> {
    fn room(&mut self, listener: ListenerId, size: usize) -> Result<&mut [u8], NoRoom> {
        if self.budget.is_spent() {
            return Err(NoRoom::Budget);
        }
        let listeners = self.core.shared.listeners();
        let found = listeners.iter().find(|(id, _)| *id == listener);
        let bound = found.ok_or(NoRoom::Unknown)?.1;
        let headers = if bound.is_ipv4() {
            V4_HEADERS
        } else {
            V6_HEADERS
        };
        let largest = self.core.shared.config.mtu - headers;
        let mbuf = if let Some(lent) = self.lent.take() {
            lent.mbuf
        } else {
            let Core {
                queue, outgoing, ..
            } = &mut *self.core;
            let mut mbuf = outgoing.allocate(queue).ok_or(NoRoom::Blocked)?;
            mbuf.prepend(u8::try_from(MAX_HEADERS).unwrap_or(u8::MAX));
            mbuf
        };
        let lent = self.lent.insert(Lent {
            listener,
            bound,
            mbuf,
        });
        let size = size.min(largest);
        Ok(&mut lent.mbuf.bytes()[MAX_HEADERS..MAX_HEADERS + size])
    }

    fn commit(&mut self, len: usize, meta: &TxMeta) {
        self.budget.spend(len);
        let Some(mut lent) = self.lent.take() else {
            debug_assert!(false, "{len} bytes were committed without room");
            return;
        };
        if self.write(&mut lent, len, meta) {
            let core = &mut *self.core;
            if core.outgoing.push(&mut core.queue, lent.mbuf) {
                core.counters.tx_messages += 1;
                core.counters.tx_datagrams += 1;
                core.counters.tx_bytes += len as u64;
                return;
            }
        }
        self.core.counters.tx_errors += 1;
    }
}
