//! HTTP as every front and every handler sees it: heads, bodies, routes, files, upstreams. Knows no transport.

pub mod auth;
pub mod authority;
pub mod block;
pub mod date;
pub mod exchange;
pub mod fastcgi;
pub(crate) mod field_name;
pub mod files;
pub mod gate;
pub mod id_map;
pub mod identification;
pub mod origin;
pub mod overhead;
pub mod path;
pub mod peer;
#[cfg(any(test, feature = "test-fixtures"))]
#[doc(hidden)]
pub mod properties;
pub mod proxy;
pub mod rate_limit;
pub mod representation;
pub mod route;
pub mod store;
pub mod target;
pub mod trusted_proxies;
pub mod websocket;
