//! Requests whose credentials are to be verified.

use std::sync::Arc;

use super::compiled::Route;
use crate::http::auth::Credentials;

/// A request for a route with [`basic_auth`](super::Access::basic_auth), which the origin thread must verify.
#[derive(Debug)]
pub struct Claim {
    /// The route.
    pub route: Arc<Route>,
    /// Credentials that the client claims.
    pub credentials: Credentials,
}
