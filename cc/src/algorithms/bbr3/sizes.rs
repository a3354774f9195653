//! The datagram size, and the windows that follow from it.

use super::params::Params;
use crate::{Init, MAX_INITIAL_DATAGRAM, MAX_MTU, MAX_WINDOW};

/// Sizes of one path, bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    mtu: u64,
    min_packets: u64,
    initial_packets: u64,
    initial_window: u64,
}

impl Sizes {
    /// Returns the sizes of a new path.
    pub(super) fn new(init: &Init, params: &Params) -> Self {
        let mut sizes = Self {
            mtu: init.mtu.clamp(1, MAX_MTU),
            min_packets: params.min_window_packets,
            initial_packets: init.initial_window_packets.max(params.min_window_packets),
            initial_window: 0,
        };
        sizes.update_initial_window();
        sizes
    }

    /// Returns the datagram size.
    pub(super) const fn mtu(&self) -> u64 {
        self.mtu
    }

    /// Sets the datagram size.
    pub(super) fn set_mtu(&mut self, mtu: u64) {
        self.mtu = mtu.clamp(1, MAX_MTU);
    }

    /// Returns the datagrams of the initial window.
    pub(super) const fn initial_packets(&self) -> u64 {
        self.initial_packets
    }

    /// Returns the initial window (RFC 9002 §7.2).
    pub(super) const fn initial_window(&self) -> u64 {
        self.initial_window
    }

    /// Computes the initial window for the present datagram size.
    pub(super) fn update_initial_window(&mut self) {
        self.initial_window = self
            .initial_packets
            .saturating_mul(self.mtu.min(MAX_INITIAL_DATAGRAM))
            .max(self.min_window())
            .min(MAX_WINDOW);
    }

    /// Returns the smallest window.
    pub(super) const fn min_window(&self) -> u64 {
        self.min_packets.saturating_mul(self.mtu)
    }
}
