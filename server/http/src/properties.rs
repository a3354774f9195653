//! Invariants of what this crate reads from outside. Each stands beside what it tries.

use crate::exchange::RequestHead;
use crate::path::CanonicalPath;

pub use crate::files::properties::file;
pub use crate::path::properties::path;
pub use crate::route::properties::route;

/// Returns the head of a request to `example.org` without query and fields.
pub fn request_head(method: String, path: CanonicalPath) -> RequestHead {
    RequestHead {
        method,
        protocol: None,
        scheme: Some("https".to_owned()),
        authority: "example.org".to_owned(),
        path,
        query: None,
        headers: Vec::new(),
    }
}
