//! Sockets of flows.

use std::net::SocketAddr;

use crate::flows::FlowId;
use crate::socket::DatagramSocket;
use crate::tuple::Tuple;

/// A flow's socket, and the way back.
pub(crate) struct FlowSocket {
    pub(crate) socket: DatagramSocket,
    pub(crate) server: SocketAddr,
    pub(crate) tuple: Tuple,
    pub(crate) listener: usize,
}

/// Sockets of flows, each at the place of its flow, with the flow's generation.
#[derive(Default)]
pub(crate) struct FlowSockets(Vec<Option<(u32, FlowSocket)>>);

impl FlowSockets {
    /// Lends the socket of a flow.
    pub(crate) fn find(&self, flow: FlowId) -> Option<&FlowSocket> {
        let (generation, socket) = self.0.get(usize::try_from(flow.index).ok()?)?.as_ref()?;
        (*generation == flow.generation).then_some(socket)
    }

    /// Lends the socket of a flow, to send.
    pub(crate) fn find_mut(&mut self, flow: FlowId) -> Option<&mut FlowSocket> {
        let (generation, socket) = self.0.get_mut(usize::try_from(flow.index).ok()?)?.as_mut()?;
        (*generation == flow.generation).then_some(socket)
    }

    /// Puts the socket of a flow in its place.
    pub(crate) fn put(&mut self, flow: FlowId, socket: FlowSocket) {
        let index = usize::try_from(flow.index).unwrap_or(usize::MAX);
        if self.0.len() <= index {
            self.0.resize_with(index.saturating_add(1), || None);
        }
        self.0[index] = Some((flow.generation, socket));
    }

    /// Closes the socket of a flow.
    pub(crate) fn close(&mut self, flow: FlowId) {
        if self.find(flow).is_some() {
            self.clear(flow);
        }
    }

    /// Closes whatever socket has the place of a flow: that of one that has ended.
    pub(crate) fn clear(&mut self, flow: FlowId) {
        let place = usize::try_from(flow.index).ok().and_then(|index| self.0.get_mut(index));
        if let Some(place) = place {
            *place = None;
        }
    }
}
