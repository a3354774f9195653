//! Bounds of what an endpoint holds, for tests.

use std::time::Duration;

use sluicegate_base::observe::account::Account;

use super::Endpoint;
use super::stateless::MAX_STATELESS;
use crate::application::Application;
use crate::connection::Connection;

impl<A: Application> Endpoint<A> {
    /// Checks that everything it holds is bounded by the number of its connections.
    pub fn check(&self) {
        let open = self.len();
        assert!(self.half_open.len() <= open as u64);
        self.half_open.check();
        assert!(self.holders.len() <= open);
        self.connections.check();
        assert!(self.stateless.len() <= MAX_STATELESS);
        let gauges = self.gauges();
        assert_eq!(gauges.controllers.values().sum::<u64>(), open as u64);
        let limits = &self.settings.limits;
        assert!(self.connections.slots() as u64 <= limits.connections_per_worker);
        let most = open as u64 * (2 + limits.cids_per_connection);
        let found = self.connections.ids();
        assert!(found as u64 <= most, "{found} connection IDs");
    }

    /// Returns the accounts of all connections.
    pub fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.connections.iter().map(Connection::account)
    }

    /// Returns the time after which a silent connection is removed, at most.
    pub fn longest_life(&self) -> Duration {
        self.settings.quic.idle_timeout + self.settings.limits.handshake_timeout
    }
}
