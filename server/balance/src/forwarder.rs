//! Sends on what clients have sent.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::Instant;

use rustix::io::Errno;

use crate::balancer::{Balancer, Placed};
use crate::flow_sockets::{FlowSocket, FlowSockets};
use crate::flows::FlowId;
use crate::poller::{EventSource, SocketPoller};
use crate::socket::{DatagramSocket, ReceivedBatch, Way};
use crate::tuple::Tuple;

/// Sends datagrams of a listener on. Neighbours of a flow leave together, as they came.
pub(crate) struct Forwarder<'a> {
    pub(crate) balancer: &'a mut Balancer,
    pub(crate) flows: &'a mut FlowSockets,
    pub(crate) poller: &'a SocketPoller,
    pub(crate) listener: usize,
    pub(crate) is_warned: &'a mut bool,
    pub(crate) now: Instant,
    /// Bytes of the message that go to a flow, and have not left.
    pub(crate) run: Option<(FlowId, Range<usize>)>,
}

impl Forwarder<'_> {
    pub(crate) fn forward(&mut self, received: &ReceivedBatch<'_>, tuple: Tuple) {
        // Nobody could answer to port 0, or from an address of several hosts.
        if tuple.client.port() == 0 || is_of_several(tuple.local.ip()) {
            self.balancer.counters_mut().unanswerable += received.datagrams();
            return;
        }
        let mut start = 0;
        for datagram in received.bytes.chunks(received.size) {
            let range = start..start + datagram.len();
            start = range.end;
            match self.balancer.route(&tuple, datagram, self.now) {
                Ok(Placed::Known(flow)) => match &mut self.run {
                    Some((current, run)) if *current == flow && run.end == range.start => {
                        run.end = range.end;
                    }
                    _ => {
                        self.flush(received);
                        self.run = Some((flow, range));
                    }
                },
                Ok(Placed::New(flow, server)) => {
                    // The flow that gives way to it may be that of the run.
                    self.flush(received);
                    if self.open(flow, server, tuple) {
                        self.run = Some((flow, range));
                    }
                }
                Err(_) => {}
            }
        }
        self.flush(received);
    }

    /// Sends the run.
    fn flush(&mut self, received: &ReceivedBatch<'_>) {
        let Some((flow, range)) = self.run.take() else { return };
        let counters = self.balancer.counters_mut();
        let part = ReceivedBatch { bytes: &received.bytes[range], ..*received };
        match self.flows.find_mut(flow) {
            Some(found) => {
                let way = Way { to: found.server, from: None };
                if found.socket.send(&part, way, counters) {
                    self.balancer.fail(flow);
                    self.flows.close(flow);
                }
            }
            None => counters.no_socket += part.datagrams(),
        }
    }

    /// Opens the socket of a flow. Without one the flow ends, and another one gives way for the next.
    fn open(&mut self, flow: FlowId, server: SocketAddr, tuple: Tuple) -> bool {
        // So its descriptor is free.
        self.flows.clear(flow);
        let opened = DatagramSocket::connect(server).and_then(|socket| {
            self.poller.add(&socket, EventSource::Flow(flow))?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => {
                let listener = self.listener;
                self.flows.put(flow, FlowSocket { socket, server, tuple, listener });
                true
            }
            Err(error) => {
                self.balancer.remove(flow);
                self.balancer.counters_mut().no_socket += 1;
                if is_exhausted(&error)
                    && let Some(evicted) = self.balancer.evict()
                {
                    self.flows.close(evicted);
                }
                if !std::mem::replace(self.is_warned, true) {
                    tracing::warn!(%server, %error, "no socket for a flow; the total of datagrams counts further ones");
                }
                false
            }
        }
    }
}

/// Returns whether datagrams to an address go to several hosts.
fn is_of_several(ip: IpAddr) -> bool {
    ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Returns whether there would be a socket if another one was closed.
fn is_exhausted(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::ADDRINUSE | Errno::NOBUFS)
    )
}
