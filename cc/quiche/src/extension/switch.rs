//! Another congestion controller for a running connection.
//!
//! The build script places this file at `extension/switch.rs` of the patched source.

use crate::recovery::cc::Factory;
use crate::BufFactory;
use crate::Connection;

impl<F: BufFactory> Connection<F> {
    /// Puts a controller by `factory` in the place of each path's, and lets `factory` make those of later paths. It begins with the
    /// path's round trip and no larger window than the former controller has, and what is in flight becomes its own. A path that
    /// the peer has left gets one too: the peer may return to it. Returns whether it did: the handshake must be complete, and the
    /// former controllers be from outside.
    pub fn switch_controller(&mut self, factory: Factory) -> bool {
        if !self.is_established() {
            return false;
        }
        let mut config = self.recovery_config.clone();
        config.cc_factory = Some(factory);
        let now = crate::clock::now();
        // All or none: the paths have the same kind of controller.
        for (_, path) in self.paths.iter_mut() {
            if !path.recovery.switch_controller(&config, now) {
                return false;
            }
        }
        self.recovery_config = config;
        self.update_tx_cap();
        true
    }
}
