//! The proxy's view of a route.

use http::HeaderName;

use crate::http::path::CanonicalPath;

/// A route's rules for the requests that it passes on.
pub trait RequestRules {
    /// Returns the path behind the route's prefix, in the spelling for upstreams.
    fn rest<'a>(&self, path: &'a CanonicalPath) -> &'a str;

    /// Whether a field of the request comes from the configuration, not from the client.
    fn sets(&self, name: &HeaderName) -> bool;
}
