//! Settings of a route, compiled, and the state of the thread that serves it.

use std::sync::Arc;

use sluicegate_config::FastCgi;

use super::buffers::BodyBuffers;
use crate::files::disk::FileServer;
use crate::proxy::{PoolCompiler, Pools, RequestRules, RoutePool, UpstreamTlsError};

/// Compiled handler of a route: its settings, and the pool of its servers.
#[derive(Clone, Debug)]
pub struct RouteFastCgi {
    /// Settings of the handler.
    pub settings: Arc<FastCgi>,
    pub(super) pool: RoutePool,
}

impl RouteFastCgi {
    /// Compiles the handler of a route.
    ///
    /// # Errors
    /// None: the pool has no TLS.
    pub fn compile(
        settings: &FastCgi,
        pools: &mut PoolCompiler<'_>,
    ) -> Result<RouteFastCgi, UpstreamTlsError> {
        Ok(RouteFastCgi {
            pool: pools.compile_pool(settings.pool().pool())?,
            settings: Arc::new(settings.clone()),
        })
    }
}

/// Settings of a route for a request that it has admitted.
#[derive(Clone, Copy)]
pub struct Admitted<'a> {
    /// Changes to the request's fields, and pages in place of error responses.
    pub rules: &'a dyn RequestRules,
    /// Part of the path behind the route's prefix.
    pub rest: &'a str,
    /// User whose password was verified, if the route asks for one.
    pub user: Option<&'a [u8]>,
}

/// State of a thread that its requests share.
#[derive(Clone, Copy, Debug)]
pub struct ThreadState<'a> {
    /// Looks for scripts.
    pub files: &'a FileServer,
    /// Connections to servers.
    pub pools: &'a Pools,
    /// Bodies of unknown length.
    pub buffers: &'a BodyBuffers,
}
