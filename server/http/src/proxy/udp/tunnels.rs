//! The tunnels of an origin thread, and their number.

use std::cell::RefCell;

use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::clients::ClientPrefix;
use sluicegate_base::clients::shared_room::SharedRoom;

use super::counters::UdpTunnelCounters;

/// The tunnels of an origin thread.
#[derive(Default)]
pub struct UdpTunnels {
    counters: RefCell<UdpTunnelCounters>,
    open: SharedRoom,
    /// Room for a datagram that was just received, which no tunnel keeps.
    pub(super) scratch: RefCell<Vec<u8>>,
}

impl UdpTunnels {
    /// Returns the counters.
    pub fn counters(&self) -> UdpTunnelCounters {
        UdpTunnelCounters { open: self.open.taken(), ..self.counters.borrow().clone() }
    }

    /// Changes the counters.
    pub(super) fn count(&self, change: impl FnOnce(&mut UdpTunnelCounters)) {
        change(&mut self.counters.borrow_mut());
    }
}

/// An open tunnel, until it is dropped.
pub(super) struct Open<'a> {
    tunnels: &'a UdpTunnels,
    client: ClientPrefix,
}

impl<'a> Open<'a> {
    /// Counts a tunnel of a client; `None` if there are as many as `most` already, or if the client has one and would have more than it
    /// leaves free.
    pub(super) fn new(
        tunnels: &'a UdpTunnels,
        client: ValidatedAddress,
        most: u64,
    ) -> Option<Open<'a>> {
        let client = ClientPrefix::from(client);
        let opened = tunnels.open.take(client, 1, most, 1);
        opened.then(|| Open { tunnels, client })
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.tunnels.open.give_back(self.client, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_no_more_tunnels_than_it_leaves_free_and_each_other_one_gets_some() {
        const MOST: u64 = 8;
        let tunnels = UdpTunnels::default();
        let open = |host: u8| {
            let client = format!("192.0.2.{host}:1").parse().unwrap();
            Open::new(&tunnels, client, MOST)
        };
        let mut all: Vec<_> = (0..9).filter_map(|_| open(1)).collect();
        assert_eq!(all.len(), 4);
        for (host, opened) in [(2, 2), (3, 1), (4, 1), (5, 0)] {
            let before = all.len();
            all.extend((0..9).filter_map(|_| open(host)));
            assert_eq!(all.len() - before, opened, "{host}");
        }
        drop(all);
        assert_eq!(tunnels.counters().open, 0);
        assert!(open(1).is_some());
    }
}
