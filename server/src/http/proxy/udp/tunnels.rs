//! The tunnels of an origin thread, and their number.

use std::cell::{Cell, RefCell};

use super::counters::Counters;

/// The tunnels of an origin thread.
pub struct UdpTunnels {
    counters: RefCell<Counters>,
    open: Cell<u64>,
    /// Room for a datagram that was just received, which no tunnel keeps.
    pub(super) scratch: RefCell<Vec<u8>>,
}

impl Default for UdpTunnels {
    fn default() -> UdpTunnels {
        UdpTunnels {
            counters: RefCell::default(),
            open: Cell::new(0),
            scratch: RefCell::new(Vec::new()),
        }
    }
}

impl UdpTunnels {
    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        Counters {
            open: self.open.get(),
            ..self.counters.borrow().clone()
        }
    }

    /// Changes the counters.
    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.counters.borrow_mut());
    }
}

/// An open tunnel, until it is dropped.
pub(super) struct Open<'a>(&'a UdpTunnels);

impl<'a> Open<'a> {
    /// Counts a tunnel; `None` if there are as many as `most` already.
    pub(super) fn new(tunnels: &'a UdpTunnels, most: u64) -> Option<Open<'a>> {
        let open = tunnels.open.get();
        (open < most).then(|| {
            tunnels.open.set(open + 1);
            Open(tunnels)
        })
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
    }
}
