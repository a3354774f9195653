//! Gauges of an endpoint's connections, kept as they change.

use std::collections::BTreeMap;

use sluicegate_base::observe::metrics::{LabelValues, metrics};

metrics! {
    /// Connections at one moment.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ConnectionGauges: Sum {
        /// Connections, including those that are closing.
        pub open: u64 = gauge("sluicegate_connections"),
        /// Connections whose handshake is unfinished.
        pub half_open: u64 = gauge("sluicegate_connections_handshaking"),
        /// Connections whose events the flight recorder keeps.
        pub recorders: u64 = gauge("sluicegate_recorder_connections"),
        /// Connections by congestion control algorithm and by state of the controller.
        pub controllers: BTreeMap<ControllerLabels, u64> =
            gauge("sluicegate_connections_by_controller_state" by "algorithm", "state"),
    }
}

/// Algorithm and state of a congestion controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ControllerLabels {
    /// Name of the algorithm.
    pub algorithm: &'static str,
    /// State of the controller of the active path, in its own word.
    pub state: &'static str,
}

impl LabelValues for ControllerLabels {
    fn values(&self) -> impl Iterator<Item = &str> {
        [self.algorithm, self.state].into_iter()
    }
}

impl ConnectionGauges {
    /// Counts a connection under what its congestion controller is now, and no more under what it was before.
    pub(super) fn move_controller(
        &mut self,
        before: Option<ControllerLabels>,
        now: Option<ControllerLabels>,
    ) {
        if before == now {
            return;
        }
        if let Some(controller) = now {
            *self.controllers.entry(controller).or_default() += 1;
        }
        if let Some(before) = before
            && let Some(count) = self.controllers.get_mut(&before)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.controllers.remove(&before);
            }
        }
    }
}
