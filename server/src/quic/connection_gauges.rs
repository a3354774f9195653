//! What an endpoint holds at one moment.

use std::collections::BTreeMap;

use super::endpoint::Endpoint;
use crate::observe::metrics::{LabelValues, metrics};

/// State of a connection whose quiche has no controller to ask.
const NO_STATE: &str = "none";

metrics! {
    /// Connections at one moment.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ConnectionGauges: Sum {
        /// Connections, those included that are closing.
        pub open: u64 = gauge("sluicegate_connections"),
        /// Connections whose handshake is not done.
        pub half_open: u64 = gauge("sluicegate_connections_handshaking"),
        /// Connections by congestion control algorithm and by what its controller does.
        pub controllers: BTreeMap<Controller, u64> =
            gauge("sluicegate_connections_by_controller_state" by "algorithm", "state"),
    }
}

/// What a congestion controller is and does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Controller {
    /// Name of the algorithm.
    pub algorithm: &'static str,
    /// State of the controller of the active path, in its own word.
    pub state: &'static str,
}

impl LabelValues for Controller {
    fn values(&self) -> impl Iterator<Item = &str> {
        [self.algorithm, self.state].into_iter()
    }
}

impl Endpoint {
    /// Looks at every connection once.
    pub fn gauges(&self) -> ConnectionGauges {
        let mut gauges = ConnectionGauges {
            open: self.len() as u64,
            half_open: self.half_open,
            controllers: BTreeMap::new(),
        };
        for connection in self.connections.iter().flatten() {
            let controller = Controller {
                algorithm: connection.algorithm,
                state: connection.quic.congestion_state().unwrap_or(NO_STATE),
            };
            *gauges.controllers.entry(controller).or_default() += 1;
        }
        gauges
    }
}
