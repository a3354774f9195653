//! The clients that may use a route.

use std::net::IpAddr;

use sluicegate_config::RouteSettings;

use crate::networks::Networks;

/// Rules about the clients that may use a route.
#[derive(Debug)]
pub struct Access {
    /// Networks of the clients that may use the route; `None` if all may.
    allow: Option<Networks>,
    deny: Networks,
}

/// Reason for which a client may not use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The client is in `deny`.
    Denied,
    /// The client is not in `allow`.
    NotAllowed,
}

impl Access {
    /// Reads the networks of a route.
    pub(super) fn new(settings: &RouteSettings) -> Access {
        let allow = &settings.allow;
        Access {
            allow: (!allow.is_empty()).then(|| Networks::new(allow)),
            deny: Networks::new(&settings.deny),
        }
    }

    /// Returns whether every client may use the route.
    pub fn is_open(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    /// Checks that a client may use the route.
    ///
    /// # Errors
    /// The client is in `deny`, or there is an `allow` and it is not there.
    pub fn check(&self, client: IpAddr) -> Result<(), Denial> {
        if self.deny.contains(client) {
            return Err(Denial::Denied);
        }
        match &self.allow {
            Some(allow) if !allow.contains(client) => Err(Denial::NotAllowed),
            _ => Ok(()),
        }
    }
}
