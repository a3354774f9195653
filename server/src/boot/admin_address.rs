//! The admin address, which a reload may change.

use std::net::SocketAddr;
use std::sync::Arc;

use super::error::BootError;
use crate::admin::{AdminServer, AdminState};

/// The admin address of a configuration, and the server there, if it has one.
pub(super) struct AdminAddress {
    admin_state: Arc<AdminState>,
    configured: Option<SocketAddr>,
    server: Option<AdminServer>,
}

impl AdminAddress {
    /// Serves the pages at an address, if there is one.
    ///
    /// # Errors
    /// The address cannot be served.
    pub(super) fn open(
        configured: Option<SocketAddr>,
        admin_state: &Arc<AdminState>,
    ) -> Result<AdminAddress, BootError> {
        let start = |address| AdminServer::start(address, Arc::clone(admin_state));
        Ok(AdminAddress {
            admin_state: Arc::clone(admin_state),
            configured,
            server: configured
                .map(start)
                .transpose()
                .map_err(BootError::Admin)?,
        })
    }

    /// Serves the pages at the address of another configuration, too; `None` if it is the same one.
    ///
    /// # Errors
    /// The address cannot be served.
    pub(super) fn change(
        &self,
        configured: Option<SocketAddr>,
    ) -> Result<Option<AdminAddress>, BootError> {
        let is_other = configured != self.configured;
        let other = is_other.then(|| AdminAddress::open(configured, &self.admin_state));
        other.transpose()
    }

    /// Logs the address.
    pub(super) fn announce(&self) {
        let Some(server) = &self.server else {
            return;
        };
        let address = server.local();
        tracing::info!(%address, "health checks and metrics");
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "the admin address has no authentication: restrict who can reach it");
        }
    }
}
