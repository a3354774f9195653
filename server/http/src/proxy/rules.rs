//! Rules of a route, as the proxy sees them.

use http::HeaderName;

use crate::exchange::{ErrorPages, FieldNames, RequestHead};
use crate::path::{CanonicalPath, PathError};

/// Rules of a route for the requests that it forwards.
pub trait RequestRules {
    /// Returns the path behind the route's prefix, in the spelling for upstreams.
    fn rest<'a>(&self, path: &'a CanonicalPath) -> &'a str;

    /// Returns the route's prefix; empty if it has none.
    fn prefix(&self) -> &str;

    /// Returns the path that upstreams get in place of the request's; `None` if it stays.
    fn rewrite(&self, head: &RequestHead) -> Option<Result<CanonicalPath, PathError>>;

    /// Returns the contents in place of those of error responses.
    fn error_pages(&self) -> &ErrorPages;

    /// Returns whether a field of the request comes from the configuration, not from the client.
    fn sets(&self, name: &HeaderName) -> bool;

    /// Returns the fields that the configuration sets or removes, so that the client cannot send them.
    fn replaced(&self) -> FieldNames;

    /// Returns whether the configuration removes a field, so that the proxy adds none either.
    fn removes(&self, name: &HeaderName) -> bool;
}
