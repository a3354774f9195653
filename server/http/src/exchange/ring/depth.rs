//! Fill levels and counters of a worker's rings.

use sluicegate_base::observe::metrics::metrics;

use super::{OriginRing, OriginRingCounters};
use crate::exchange::accounts::AccountTotals;

metrics! {
    /// Fill levels of the rings between a worker and its origin thread, at one moment.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Depth: Sum {
        /// Messages in the ring to the origin.
        pub to_origin: u64 = gauge(
            "sluicegate_origin_queue_messages", where = "to_origin";
            "Messages that wait between a worker and its origin thread, in the ring or, if it is full, outside."
        ),
        /// Messages that wait beside the full ring to the origin.
        pub overflow: u64 = also(where = "beside_to_origin"),
        /// Messages in the ring from the origin.
        pub from_origin: u64 = also(where = "from_origin"),
        /// Capacity of the rings of one direction, messages.
        pub capacity: u64 = gauge("sluicegate_origin_queue_capacity_messages"),
        /// Requests that an origin thread handles now.
        pub running: u64 = gauge("sluicegate_origin_exchanges"),
        /// Memory reserved for the requests that origin threads handle, and for responses of theirs that wait for their clients.
        pub promised: u64 = gauge("sluicegate_origin_reserved_bytes"),
        /// Counters of the worker's ends of the rings.
        pub counters: OriginRingCounters = group,
    }
}

impl OriginRing {
    /// Returns how full the rings are now.
    pub fn depth(&self) -> Depth {
        let AccountTotals { promised, refused_memory, refused_client } =
            self.exchanges.accounts.totals();
        let capacity = self.to.buffer().capacity();
        Depth {
            to_origin: (capacity - self.to.slots()) as u64,
            overflow: self.overflow.len() as u64,
            from_origin: self.from.slots() as u64,
            capacity: capacity as u64,
            running: self.running() as u64,
            promised,
            counters: OriginRingCounters { refused_memory, refused_client, ..self.counters },
        }
    }
}
