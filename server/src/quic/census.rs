//! What an endpoint holds at one moment.

use std::ops::AddAssign;

use super::endpoint::Endpoint;
use crate::observe::metrics::{Page, Show};

/// State of a connection whose engine has no controller to ask.
const NO_STATE: &str = "none";

/// Connections at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Connections, those included that are closing.
    pub open: u64,
    /// Of them, those whose handshake is not done.
    pub half_open: u64,
    /// By what their congestion controllers do.
    pub controllers: Vec<Controllers>,
}

/// Connections whose controllers do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// Of the connection.
    pub algorithm: &'static str,
    /// Of its active path's controller.
    pub state: &'static str,
    /// How many there are.
    pub connections: u64,
}

impl Census {
    /// A few pairs at most: every algorithm knows a handful of states.
    fn add(&mut self, more: Controllers) {
        let same = |known: &&mut Controllers| {
            known.algorithm == more.algorithm && known.state == more.state
        };
        match self.controllers.iter_mut().find(same) {
            Some(known) => known.connections += more.connections,
            None => self.controllers.push(more),
        }
    }
}

impl AddAssign<&Census> for Census {
    fn add_assign(&mut self, other: &Census) {
        // Named one by one, so that none is forgotten.
        let Census {
            open,
            half_open,
            controllers,
        } = other;
        self.open += open;
        self.half_open += half_open;
        controllers.iter().for_each(|more| self.add(*more));
    }
}

impl Show for Census {
    fn show(&self, page: &mut Page) {
        let Census {
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
        for controllers in controllers {
            let labels = [
                ("algorithm", controllers.algorithm),
                ("state", controllers.state),
            ];
            family.sample(&labels, controllers.connections);
        }
    }
}

impl Endpoint {
    /// Looks at every connection once.
    pub fn census(&self) -> Census {
        let mut census = Census {
            open: self.len() as u64,
            half_open: self.half_open,
            controllers: Vec::new(),
        };
        for connection in self.connections.iter().flatten() {
            census.add(Controllers {
                algorithm: connection.algorithm,
                state: connection.engine.congestion_state().unwrap_or(NO_STATE),
                connections: 1,
            });
        }
        census
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_pairs_of_two_workers_are_one() {
        let pair = |algorithm, state, connections| Controllers {
            algorithm,
            state,
            connections,
        };
        let mut sum = Census {
            open: 3,
            half_open: 1,
            controllers: vec![pair("cubic", "recovery", 1), pair("bbr3", "drain", 2)],
        };
        sum += &Census {
            open: 6,
            half_open: 0,
            controllers: vec![
                pair("bbr3", "drain", 1),
                pair("cubic", "drain", 2),
                pair("cubic", "recovery", 3),
            ],
        };
        let expected = [
            pair("cubic", "recovery", 4),
            pair("bbr3", "drain", 3),
            pair("cubic", "drain", 2),
        ];
        assert_eq!((sum.open, sum.half_open), (9, 1));
        assert_eq!(sum.controllers, expected);
    }
}
