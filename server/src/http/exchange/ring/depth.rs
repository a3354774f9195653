//! How full a worker's rings are, and what was counted at them.

use super::{OriginRing, OriginRingCounters};
use crate::observe::metrics::{Page, Show};
use crate::observe::sum::summed;

summed! {
    /// A worker's link to its origin thread, at one moment.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Depth {
        /// Messages in the ring to the origin.
        pub to_origin: u64,
        /// Messages that wait beside it.
        pub overflow: u64,
        /// Messages in the ring from the origin.
        pub from_origin: u64,
        /// Messages that either ring holds at most.
        pub capacity: u64,
        /// Exchanges that the origin has not closed.
        pub running: u64,
        /// Bytes promised to them.
        pub promised: u64,
        /// What happened so far.
        pub counters: OriginRingCounters,
    }
}

impl OriginRing {
    /// As it is now.
    pub fn depth(&self) -> Depth {
        let capacity = self.to.buffer().capacity();
        Depth {
            to_origin: (capacity - self.to.slots()) as u64,
            overflow: self.overflow.len() as u64,
            from_origin: self.from.slots() as u64,
            capacity: capacity as u64,
            running: self.running() as u64,
            promised: self.promised,
            counters: self.counters,
        }
    }
}

impl Show for Depth {
    fn show(&self, page: &mut Page) {
        // Named one by one, so that none is forgotten.
        let Depth {
            to_origin,
            overflow,
            from_origin,
            capacity,
            running,
            promised,
            counters,
        } = self;
        let mut family = page.gauges(
            "sluicegate_origin_queue_messages",
            "Messages that wait between workers and origins: in a ring, or beside a full one.",
        );
        for (direction, count) in [
            ("to_origin", to_origin),
            ("beside_to_origin", overflow),
            ("from_origin", from_origin),
        ] {
            family.sample(&[("where", direction)], count);
        }
        page.gauge(
            "sluicegate_origin_queue_capacity_messages",
            "Messages that the rings of one direction hold at most.",
            capacity,
        );
        page.gauge(
            "sluicegate_origin_exchanges",
            "Requests that an origin handles.",
            running,
        );
        page.gauge(
            "sluicegate_origin_promised_bytes",
            "Memory that those requests may take.",
            promised,
        );
        counters.show(page);
    }
}

impl Show for OriginRingCounters {
    fn show(&self, page: &mut Page) {
        // Named one by one, so that none is forgotten.
        let OriginRingCounters {
            opened,
            refused_queue,
            refused_memory,
            refused_client,
            waited,
        } = self;
        page.counter(
            "sluicegate_origin_exchanges_opened_total",
            "Requests handed to an origin.",
            opened,
        );
        page.counter(
            "sluicegate_origin_messages_delayed_total",
            "Messages to an origin that had to wait beside a full ring.",
            waited,
        );
        let mut refused = page.counters(
            "sluicegate_origin_exchanges_refused_total",
            "Requests that no origin was handed, by reason.",
        );
        refused.sample(&[("reason", "queue")], refused_queue);
        refused.sample(&[("reason", "memory")], refused_memory);
        refused.sample(&[("reason", "client")], refused_client);
    }
}
