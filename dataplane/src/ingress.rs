//! One received message on its way to the caller: read, checked and cut into datagrams.

use std::os::fd::AsFd as _;

use crate::binding::Binding;
use crate::counters::Counters;
use crate::event::{Event, Events};
use crate::message::Message;
use crate::meta::{Budget, RxMeta, datagrams};
use crate::{addr, control, sys};

/// Receive state of one socket.
#[derive(Debug, Default)]
pub(crate) struct Ingress {
    /// The kernel's count of dropped datagrams when it was last seen. It belongs to the socket, which several drivers may read in turn.
    overflow: u32,
    /// Bytes of the current message that were passed on before the budget was spent.
    done: usize,
}

impl Ingress {
    /// Hands the datagrams of a message to `sink` until `budget` is spent. Returns whether the message is finished; if
    /// not, the next call is to be for the same message.
    pub(crate) fn deliver(
        &mut self,
        message: Message<'_>,
        binding: &Binding,
        counters: &mut Counters,
        events: &mut Events,
        budget: &mut Budget,
        sink: &mut impl FnMut(&RxMeta, &mut [u8]),
    ) -> bool {
        if message.truncated {
            counters.rx_truncated += 1;
            return true;
        }
        let received = control::parse(message.control);
        let peer = addr::decode(message.name);
        // Before the socket was configured the kernel did not note where a datagram was sent to.
        let local = received.local(binding.local_addr());
        let (Some(peer), Some(local)) = (peer, local) else {
            counters.rx_errors += 1;
            return true;
        };
        let len = message.payload.len();
        let stride = received.stride.unwrap_or(len).min(len);
        if self.done == 0 {
            self.note_overflow(received.overflow, binding, counters, events);
            if peer.port() == 0 {
                counters.rx_port_zero += datagrams(len, stride);
                return true;
            }
            counters.rx_messages += 1;
            counters.rx_datagrams += datagrams(len, stride);
            counters.rx_bytes += len as u64;
        }
        let meta = RxMeta { listener: binding.listener(), peer, local, ecn: received.ecn };
        loop {
            if budget.is_spent() {
                return false;
            }
            let end = len.min(self.done + stride);
            let datagram = &mut message.payload[self.done..end];
            budget.spend(datagram.len());
            sink(&meta, datagram);
            if end == len {
                self.done = 0;
                return true;
            }
            self.done = end;
        }
    }

    /// Counts what the kernel drops from here on: somebody else has read, and counted what it dropped before.
    pub(crate) fn begin(&mut self, binding: &Binding) {
        self.overflow = sys::drops(binding.as_fd()).unwrap_or(self.overflow);
    }

    /// Counts what the kernel has dropped so far: somebody else reads from here on, and counts the rest.
    pub(crate) fn end(&mut self, binding: &Binding, counters: &mut Counters, events: &mut Events) {
        self.note_overflow(sys::drops(binding.as_fd()), binding, counters, events);
    }

    fn note_overflow(
        &mut self,
        total: Option<u32>,
        binding: &Binding,
        counters: &mut Counters,
        events: &mut Events,
    ) {
        let Some(total) = total else { return };
        let dropped = total.wrapping_sub(self.overflow);
        // A datagram that has waited since before the last count has an older one.
        if dropped.cast_signed() > 0 {
            self.overflow = total;
            counters.rx_overflows += u64::from(dropped);
            let listener = binding.listener();
            events.push(Event::ReceiveOverflow { listener, dropped }, counters);
        }
    }
}
