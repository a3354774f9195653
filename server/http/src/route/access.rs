//! The clients that may use a route.

use std::sync::Arc;

use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::named_file;
use sluicegate_base::networks::Networks;

use super::error::SiteError;
use super::rate_limits::RateLimitCompiler;
use crate::auth::{BasicAuth, Users};
use crate::rate_limit::RateLimit;

/// Rules about the clients that may use a route.
#[derive(Debug)]
pub struct Access {
    /// Networks of the clients that may use the route; `None` if all may.
    allow: Option<Networks>,
    deny: Networks,
    rate_limit: Option<Arc<RateLimit>>,
    basic_auth: Option<BasicAuth>,
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
    /// Compiles the rules of a route: reads the file of its users.
    ///
    /// # Errors
    /// The file cannot be read or used.
    pub(super) fn compile(
        route: &sluicegate_config::Route,
        rate_limits: &mut RateLimitCompiler<'_>,
    ) -> Result<Access, SiteError> {
        let settings = route.settings();
        let allow = &settings.allow;
        Ok(Access {
            allow: (!allow.is_empty()).then(|| Networks::new(allow)),
            deny: Networks::new(&settings.deny),
            rate_limit: rate_limits.compile(route),
            basic_auth: basic_auth(route)?,
        })
    }

    /// Returns whether the rules admit clients of every network, with a password where one is asked for.
    pub fn is_open(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    /// Returns whether these rules may refuse a request that `others` admit: by the client's network, by its password, or by a
    /// rate that is counted apart.
    pub fn is_stricter_than(&self, others: &Access) -> bool {
        let allowed = self.allow.as_ref().is_none_or(|allow| {
            let other = others.allow.as_ref();
            other.is_some_and(|other| allow.covers(other))
        });
        let has_password = self.basic_auth.as_ref().is_none_or(|auth| {
            let other = others.basic_auth.as_ref();
            other.is_some_and(|other| auth.users.are_same(&other.users))
        });
        let counts = self.rate_limit.as_ref().is_none_or(|limit| {
            let other = others.rate_limit.as_ref();
            other.is_some_and(|other| Arc::ptr_eq(limit, other))
        });
        !(allowed && others.deny.covers(&self.deny) && has_password && counts)
    }

    /// Returns the limit of each client's rate; `None` if there is none.
    pub fn rate_limit(&self) -> Option<&RateLimit> {
        self.rate_limit.as_deref()
    }

    /// Returns the users of the route; `None` if it asks for no password.
    pub fn basic_auth(&self) -> Option<&BasicAuth> {
        self.basic_auth.as_ref()
    }

    /// Checks that a client may use the route.
    ///
    /// # Errors
    /// The client is in `deny`, or there is an `allow` and it is not there.
    pub fn check(&self, client: ValidatedAddress) -> Result<(), Denial> {
        let client = client.ip();
        if self.deny.contains(client) {
            return Err(Denial::Denied);
        }
        match &self.allow {
            Some(allow) if !allow.contains(client) => Err(Denial::NotAllowed),
            _ => Ok(()),
        }
    }
}

fn basic_auth(route: &sluicegate_config::Route) -> Result<Option<BasicAuth>, SiteError> {
    let Some(auth) = route.settings().basic_auth.given() else {
        return Ok(None);
    };
    let refuse = |cause: String| SiteError::Users {
        route: route.label(),
        file: auth.users_file.clone(),
        cause,
    };
    let text = named_file::read_text(&auth.users_file, named_file::PAGE);
    let text = text.map_err(|error| refuse(error.to_string()))?;
    let users = Users::parse(&text).map_err(|error| refuse(error.to_string()))?;
    let protection = BasicAuth::new(Arc::new(users), &auth.realm, auth.forward);
    protection.map(Some).map_err(|field| SiteError::Field { route: route.label(), field })
}
