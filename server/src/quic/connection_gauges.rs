//! What an endpoint holds at one moment.

use std::collections::BTreeMap;

use super::endpoint::Endpoint;
use crate::observe::metrics::{Page, Show};
use crate::observe::sum::summed;

/// State of a connection whose quiche has no controller to ask.
const NO_STATE: &str = "none";

summed! {
    /// Connections at one moment.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ConnectionGauges {
        /// Connections, those included that are closing.
        pub open: u64,
        /// Of them, those whose handshake is not done.
        pub half_open: u64,
        /// By what their congestion controllers do.
        pub controllers: BTreeMap<Controller, u64>,
    }
}

/// A congestion controller, by what it is and does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Controller {
    /// Of its connection.
    pub algorithm: &'static str,
    /// Of the one on the active path.
    pub state: &'static str,
}

impl Show for ConnectionGauges {
    fn show(&self, page: &mut Page) {
        let ConnectionGauges {
            open,
            half_open,
            controllers,
        } = self;
        page.gauge(
            "sluicegate_connections",
            "Connections, those included that are closing.",
            open,
        );
        page.gauge(
            "sluicegate_connections_handshaking",
            "Connections whose handshake is not done.",
            half_open,
        );
        let mut family = page.gauges(
            "sluicegate_connections_by_controller_state",
            "Connections by congestion control algorithm and by what its controller does.",
        );
        for (Controller { algorithm, state }, count) in controllers {
            family.sample(&[("algorithm", algorithm), ("state", state)], count);
        }
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
