//! The admin address, which a reload may change.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use sluicegate_config::Admin;

use super::error::{BootError, one_line};
use super::passed::Passed;
use crate::admin::{AdminServer, AdminState, Scraper};

/// The admin address of a configuration, and the server there, if it has one.
pub(super) struct AdminAddress {
    admin_state: Arc<AdminState>,
    configured: Option<SocketAddr>,
    server: Option<AdminServer>,
    /// Socket at which the pages are not served yet, or no more, while another process serves.
    kept: Option<TcpListener>,
}

impl AdminAddress {
    /// Serves the pages of a configuration that has an address for them.
    ///
    /// # Errors
    /// The address cannot be served.
    pub(super) fn open(
        admin: &Admin,
        admin_state: &Arc<AdminState>,
        passed: &Passed,
    ) -> Result<AdminAddress, BootError> {
        let mut opened = AdminAddress::prepare(admin, admin_state, passed)?;
        opened.reopen()?;
        Ok(opened)
    }

    /// Binds the address of a configuration. [`AdminAddress::reopen`] serves the pages there; until then, clients wait.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub(super) fn prepare(
        admin: &Admin,
        admin_state: &Arc<AdminState>,
        passed: &Passed,
    ) -> Result<AdminAddress, BootError> {
        let bound = AdminAddress::bind(admin.address, admin_state, passed)?;
        bound.adopt(admin);
        Ok(bound)
    }

    fn bind(
        configured: Option<SocketAddr>,
        admin_state: &Arc<AdminState>,
        passed: &Passed,
    ) -> Result<AdminAddress, BootError> {
        let bind = |address| match passed.admin(address)? {
            Some(socket) => Ok(socket),
            None => AdminServer::bind(address).map_err(BootError::Admin),
        };
        Ok(AdminAddress {
            admin_state: Arc::clone(admin_state),
            configured,
            server: None,
            kept: configured.map(bind).transpose()?,
        })
    }

    /// Serves the pages at the address of another configuration, too; `None` if it is the same one.
    ///
    /// # Errors
    /// The address cannot be served.
    pub(super) fn change(
        &self,
        configured: Option<SocketAddr>,
        passed: &Passed,
    ) -> Result<Option<AdminAddress>, BootError> {
        let is_other = configured != self.configured;
        let other = is_other.then(|| {
            let mut other = AdminAddress::bind(configured, &self.admin_state, passed)?;
            other.reopen()?;
            Ok(other)
        });
        other.transpose()
    }

    /// Returns an address that is not served yet.
    pub(super) fn later(admin_state: &Arc<AdminState>) -> AdminAddress {
        AdminAddress {
            admin_state: Arc::clone(admin_state),
            configured: None,
            server: None,
            kept: None,
        }
    }

    /// Returns its address in the configuration, and another descriptor of its socket.
    pub(super) fn duplicate(&self) -> io::Result<Option<(SocketAddr, OwnedFd)>> {
        let Some((configured, server)) = self.configured.zip(self.server.as_ref()) else {
            return Ok(None);
        };
        Ok(Some((configured, server.duplicate()?.into())))
    }

    /// Returns what makes the pages of metrics.
    pub(super) fn scraper(&self) -> &Scraper {
        &self.admin_state.scraper
    }

    /// Serves the pages no more: another process is about to, at the same socket.
    pub(super) fn close(&mut self) {
        self.admin_state.scraper.set_left(true);
        let server = self.server.take();
        self.kept = server.and_then(|server| server.duplicate().ok());
    }

    /// Serves the pages, again after [`AdminAddress::close`].
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn reopen(&mut self) -> Result<(), BootError> {
        self.admin_state.scraper.set_left(false);
        if let Some((address, socket)) = self.configured.zip(self.kept.take()) {
            let opened = AdminServer::on(address, socket, Arc::clone(&self.admin_state));
            self.server = Some(opened.map_err(BootError::Admin)?);
        }
        Ok(())
    }

    /// Does so, and logs where that fails: the process serves without its pages then.
    pub(super) fn serve_again(&mut self) {
        if let Err(error) = self.reopen() {
            tracing::error!(error = one_line(&error), "the admin address is not served");
        }
    }

    /// Puts the settings of a configuration into effect, beside its address.
    pub(super) fn adopt(&self, admin: &Admin) {
        self.admin_state.profiles.allow(allows(admin, admin.profiles));
        let names_requests = admin.connections == Some(true);
        self.admin_state.connections.allow(allows(admin, admin.connections), names_requests);
        self.admin_state.set_hosts(&admin.hosts);
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

/// Returns whether everybody who reaches the admin address may do what a switch of the operator allows or forbids.
fn allows(admin: &Admin, switch: Option<bool>) -> bool {
    let is_loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    switch.unwrap_or_else(|| admin.address.is_some_and(is_loopback))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_seen_needs_a_loopback_address_or_a_word_of_the_operator() {
        for (address, switch, expected) in [
            ("127.0.0.1:1", None, true),
            ("[::1]:1", None, true),
            ("[::ffff:127.0.0.1]:1", None, true),
            ("127.0.0.1:1", Some(false), false),
            ("0.0.0.0:1", None, false),
            ("10.0.0.1:1", None, false),
            ("10.0.0.1:1", Some(true), true),
        ] {
            let address = Some(address.parse().unwrap());
            let admin = Admin { address, hosts: Vec::new(), connections: None, profiles: None };
            assert_eq!(allows(&admin, switch), expected, "{admin:?}");
        }
        let nowhere = Admin { address: None, hosts: Vec::new(), connections: None, profiles: None };
        assert!(!allows(&nowhere, None));
    }
}
