//! A receiver that claims to have received what was lost.

use std::mem;

use sluicegate_cc::{Controller, Event, Layer, Packet, PathChange, Time};

/// Acknowledges each lost packet late, with the first ACK after it was declared lost. It has the packet's data by then or
/// soon, because the sender retransmits it.
#[derive(Debug)]
pub(crate) struct Forged {
    inner: Box<dyn Controller>,
    lost: Vec<Packet>,
}

impl Forged {
    pub(crate) fn new(inner: Box<dyn Controller>) -> Box<Self> {
        let lost = Vec::new();
        Box::new(Self { inner, lost })
    }
}

impl Layer for Forged {
    fn inner(&self) -> &dyn Controller {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        &mut *self.inner
    }

    fn on_event(&mut self, event: &Event<'_>) {
        let mut late = Vec::new();
        if !event.acked.is_empty() {
            mem::swap(&mut late, &mut self.lost);
        }
        late.extend(event.late_acked);
        late.sort_unstable_by_key(|packet| packet.packet_number);
        self.inner.on_event(&Event { late_acked: &late, ..*event });
        self.lost.extend(event.lost);
    }

    fn on_path_changed(&mut self, now: Time, change: PathChange) {
        self.lost.clear();
        self.inner.on_path_changed(now, change);
    }
}
