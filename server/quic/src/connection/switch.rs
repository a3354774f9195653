//! Another congestion control algorithm for the connection.

use serde_json::json;
use sluicegate_cc::{Algorithm, Options};

use super::{Connection, NO_STATE};
use crate::application::Application;

/// Event of a trace.
const SWITCHED: &str = "sluicegate:congestion_control_switched";

/// Congestion control of a connection at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerState {
    /// Name of the algorithm.
    pub algorithm: &'static str,
    /// State of the algorithm.
    pub state: &'static str,
    /// Congestion window, bytes.
    pub window: u64,
}

impl<A: Application> Connection<A> {
    /// Returns its congestion control at this moment.
    pub(crate) fn controller_state(&self) -> ControllerState {
        let path = self.quic.path_stats().find(|path| path.active);
        ControllerState {
            algorithm: self.algorithm,
            state: self.quic.congestion_state().unwrap_or(NO_STATE),
            window: path.map_or(0, |path| path.cwnd as u64),
        }
    }

    /// Gives it another algorithm. Returns whether it did: the handshake must be complete.
    pub(crate) fn switch_algorithm(&mut self, algorithm: Algorithm, options: Options) -> bool {
        let factory = quiche::cc::Factory::new(algorithm, options);
        if !self.quic.switch_controller(factory) {
            return false;
        }
        let old = std::mem::replace(&mut self.algorithm, algorithm.name);
        if let Some(session) = &mut self.session {
            session.set_algorithm(algorithm.name);
        }
        if self.trace.is_some() {
            let names = json!({ "old": old, "new": algorithm.name });
            self.quic.trace_event(SWITCHED, names, quiche::clock::now());
        }
        true
    }
}
