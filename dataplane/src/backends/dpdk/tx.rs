//! Sending: room in buffers of the port, headers in front, bursts to the queue.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use sluicegate_dpdk::{Mbuf, TxOffload};
use sluicegate_frames::{
    IpChecksum, MAX_HEADERS, MacAddr, NextHop, TxChecksums, TxHeader, UdpChecksum, write_headers,
};

use super::core::Core;
use super::shared::Control;
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

/// Outcome of writing a datagram.
enum Written {
    /// The buffer holds a frame to send.
    Frame,
    /// The kernel has sent it.
    Sent,
    /// It cannot leave.
    Nothing,
}

/// A buffer handed out and not committed.
struct Lent {
    listener: ListenerId,
    bound: SocketAddr,
    mbuf: Mbuf,
}

impl<'a> Emission<'a> {
    pub(super) fn new(core: &'a mut Core, budget: Budget, now: Instant) -> Self {
        Self { now_ms: core.millis(now), core, budget, lent: None, last: None }
    }

    /// Returns the station that frames to `peer` go to; asks for it where it is unknown, or leaves it to the kernel.
    fn next_hop(&mut self, listener: ListenerId, peer: SocketAddr) -> Option<MacAddr> {
        if let Some((last, mac)) = self.last
            && last == peer
        {
            return Some(mac);
        }
        let Core { hops, shared, queue, outgoing, events, counters, .. } = &mut *self.core;
        let hop = hops.lookup(peer.ip(), self.now_ms);
        let mac = match &shared.control {
            Control::Kernel(_) => match hop {
                NextHop::Known(mac) => Some(mac),
                NextHop::Stale(_) | NextHop::Unresolved | NextHop::NoRoute => None,
            },
            Control::Stack(stack) => {
                let mut resolve = || {
                    let mut send = |frame: &[u8]| outgoing.copy(queue, frame);
                    stack.resolve(peer.ip(), self.now_ms, &mut send)
                };
                match hop {
                    NextHop::Known(mac) => Some(mac),
                    NextHop::Stale(mac) => resolve().or(Some(mac)),
                    NextHop::Unresolved => resolve(),
                    NextHop::NoRoute => {
                        events.push(Event::Unreachable { listener, peer }, counters);
                        None
                    }
                }
            }
        };
        self.last = mac.map(|mac| (peer, mac));
        mac
    }

    /// Has the kernel send a datagram, where it is beside the port.
    fn send_by_kernel(
        &mut self,
        lent: &mut Lent,
        source: SocketAddr,
        payload: Range<usize>,
        peer: SocketAddr,
    ) -> Written {
        let core = &mut *self.core;
        let Control::Kernel(sockets) = &core.shared.control else {
            return Written::Nothing;
        };
        let Err(error) = sockets.send(source, peer, &lent.mbuf.bytes()[payload]) else {
            return Written::Sent;
        };
        let kind = error.kind();
        if matches!(kind, ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable) {
            let listener = lent.listener;
            let event = Event::Unreachable { listener, peer };
            core.events.push(event, &mut core.counters);
        }
        Written::Nothing
    }

    /// Writes the headers of a datagram of `len` bytes.
    fn write(&mut self, lent: &mut Lent, len: usize, meta: &TxMeta) -> Written {
        let shared = &self.core.shared;
        let Some(source) = shared.source(lent.bound, meta.peer, meta.local) else {
            return Written::Nothing;
        };
        let payload = MAX_HEADERS..MAX_HEADERS + len;
        let offloads = shared.tx_checksum;
        let (source_mac, vlan) = (shared.config.mac, shared.config.vlan);
        let Some(destination_mac) = self.next_hop(lent.listener, meta.peer) else {
            return self.send_by_kernel(lent, source, payload, meta.peer);
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
            TxChecksums { ip: IpChecksum::Port, udp: UdpChecksum::Port }
        } else {
            TxChecksums::SOFTWARE
        };
        let Ok(frame) = write_headers(lent.mbuf.bytes(), payload, &header, checksums) else {
            return Written::Nothing;
        };
        lent.mbuf.truncate(frame.end);
        lent.mbuf.skip(frame.start);
        let l2 = if vlan.is_some() { TAGGED } else { ETHERNET };
        lent.mbuf.offload(match meta.peer {
            _ if !offloads => TxOffload::None,
            SocketAddr::V4(_) => TxOffload::Ipv4(l2),
            SocketAddr::V6(_) => TxOffload::Ipv6(l2),
        });
        Written::Frame
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
        let headers = if bound.is_ipv4() { V4_HEADERS } else { V6_HEADERS };
        let largest = self.core.shared.config.mtu - headers;
        let mbuf = if let Some(lent) = self.lent.take() {
            lent.mbuf
        } else {
            let Core { queue, outgoing, .. } = &mut *self.core;
            let mut mbuf = outgoing.allocate(queue).ok_or(NoRoom::Blocked)?;
            mbuf.prepend(u8::try_from(MAX_HEADERS).unwrap_or(u8::MAX));
            mbuf
        };
        let lent = self.lent.insert(Lent { listener, bound, mbuf });
        let size = size.min(largest);
        Ok(&mut lent.mbuf.bytes()[MAX_HEADERS..MAX_HEADERS + size])
    }

    fn commit(&mut self, len: usize, meta: &TxMeta) {
        self.budget.spend(len);
        let Some(mut lent) = self.lent.take() else {
            debug_assert!(false, "{len} bytes were committed without room");
            return;
        };
        let written = self.write(&mut lent, len, meta);
        let core = &mut *self.core;
        let is_sent = match written {
            Written::Frame => core.outgoing.push(&mut core.queue, lent.mbuf),
            Written::Sent => true,
            Written::Nothing => false,
        };
        if is_sent {
            core.counters.tx_messages += 1;
            core.counters.tx_datagrams += 1;
            core.counters.tx_bytes += len as u64;
        } else {
            core.counters.tx_errors += 1;
        }
    }
}
