//! Another congestion control algorithm for a running connection.

use sluicegate_cc::{Algorithm, Options};

use super::Endpoint;
use crate::application::Application;
pub use crate::connection::ControllerState;

/// An operator's order for another algorithm.
#[derive(Clone, Debug)]
pub struct AlgorithmSwitch {
    /// Connection ID that the client chose first, or one of the server's.
    pub connection: Vec<u8>,
    /// Algorithm that the connection gets.
    pub algorithm: Algorithm,
    /// Options of the algorithm.
    pub options: Options,
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchOutcome {
    /// Connection ID that the client chose first.
    pub id: Vec<u8>,
    /// Congestion control before.
    pub from: ControllerState,
    /// Congestion control now; `None` if it stays, because the handshake is not complete.
    pub to: Option<ControllerState>,
}

impl<A: Application> Endpoint<A> {
    /// Switches the algorithm of a connection; `None` if it is none of this worker's. The listener's choice for other connections stays.
    pub fn switch_algorithm(&mut self, order: AlgorithmSwitch) -> Option<SwitchOutcome> {
        let slot = self.connections.find(&order.connection)?;
        let connection = self.connections.get_mut(slot)?;
        let (id, from) = (connection.original_id().to_vec(), connection.controller_state());
        let switched = connection.switch_algorithm(order.algorithm, order.options);
        let to = switched.then(|| connection.controller_state());
        self.note_controller(slot);
        self.connections.queue_emit(slot);
        if let Some(to) = to {
            tracing::info!(from = from.algorithm, to = to.algorithm, "congestion control switched");
        }
        Some(SwitchOutcome { id, from, to })
    }
}

#[cfg(test)]
mod tests;
