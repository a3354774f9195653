//! Finds the handler of a request, and runs those handlers that need the head alone.
//!
//! A [`Site`] is compiled once from the configuration and shared by all workers. Routing a request reads no file and waits
//! for nothing; handlers that need files or upstreams run on the origin thread.

mod access;
mod action;
mod compiled;
mod cors;
mod edits;
mod error;
mod explain;
mod local;
mod location;
mod matching;
#[cfg(any(test, feature = "test-fixtures"))]
pub mod properties;
mod rank;
mod rate_limits;
mod redirects;
mod response_edits;
mod rewrite;
mod table;
mod values;

use crate::auth::Credentials;
use std::sync::Arc;

use sluicegate_config::Limits;

pub use self::access::{Access, Denial};
pub use self::action::{OriginHandler, RouteAction};
pub use self::compiled::Route;
use self::compiled::SiteCompiler;
pub use self::error::SiteError;
pub use self::explain::{Explanation, RouteVerdict, explain};
pub use self::local::ambiguous_path;
use self::local::{allowing, not_found};
pub use self::rank::RankingRule;
use self::rate_limits::{RateLimitCompiler, SiteRateLimits};
use self::redirects::RedirectFiles;
pub use self::response_edits::FilledEdits;
use self::table::{Found, Table};
use crate::exchange::{Reply, RequestHead};
use crate::files::{FileStore, FolderCompiler, SiteFolders, Vacancy};
use crate::identification::Identification;
use crate::proxy::{PoolCompiler, SitePools};

/// Routes with their handlers, and the limits for requests; immutable.
#[derive(Debug)]
pub struct Site {
    table: Table,
    limits: Limits,
    identification: Arc<Identification>,
    /// A field that a route sets has the ID of the request.
    names_ids: bool,
    /// A route responds to preflights.
    has_cors: bool,
    pools: SitePools,
    folders: SiteFolders,
    file_store: FileStore,
    rate_limits: SiteRateLimits,
}

/// Result of routing a request.
#[derive(Clone, Debug)]
enum Routed<'a> {
    /// The response is known.
    Reply(Reply),
    /// The route's handler on the origin thread responds.
    Origin(&'a Arc<Route>),
}

impl Site {
    /// Compiles the routes of a configuration: reads files of fixed replies, and resolves the pools of proxies.
    ///
    /// # Errors
    /// A `body_file` or a `root` cannot be read, or a path or field cannot be used.
    pub fn compile(
        routes: &[sluicegate_config::Route],
        limits: &Limits,
    ) -> Result<Site, SiteError> {
        Site::compile_after(None, routes, limits, Identification::off())
    }

    /// Compiles the routes of a configuration whose requests are identified.
    ///
    /// # Errors
    /// The same as of [`Site::compile`].
    pub fn compile_identified(
        routes: &[sluicegate_config::Route],
        limits: &Limits,
        identification: Identification,
    ) -> Result<Site, SiteError> {
        Site::compile_after(None, routes, limits, identification)
    }

    /// Compiles the site that replaces this one at a reload. Upstream pools whose definition is the same in both stay the
    /// same pools, so they keep their connections and health. Folders with the same settings keep their cached files, and rate
    /// limits with the same settings their counts.
    ///
    /// # Errors
    /// The same as of [`Site::compile`].
    pub fn recompile(
        &self,
        routes: &[sluicegate_config::Route],
        limits: &Limits,
        identification: Identification,
    ) -> Result<Site, SiteError> {
        Site::compile_after(Some(self), routes, limits, identification)
    }

    fn compile_after(
        before: Option<&Site>,
        routes: &[sluicegate_config::Route],
        limits: &Limits,
        identification: Identification,
    ) -> Result<Site, SiteError> {
        let mut table = Table::default();
        let (mut names_ids, mut has_cors) = (false, false);
        let none: (SitePools, SiteFolders, SiteRateLimits) = Default::default();
        let (pools, folders, rate_limits) = before.map_or((&none.0, &none.1, &none.2), |site| {
            (&site.pools, &site.folders, &site.rate_limits)
        });
        let mut compiler = SiteCompiler {
            limits,
            request_id: identification.field(),
            pools: PoolCompiler::new(pools),
            folders: FolderCompiler::new(folders),
            redirects: RedirectFiles::default(),
        };
        let mut rate_limits = RateLimitCompiler::new(rate_limits);
        for (place, route) in routes.iter().enumerate() {
            let access = Arc::new(Access::compile(route, &mut rate_limits)?);
            for compiled in Route::compile(place, route, &access, &mut compiler)? {
                names_ids |= compiled.names_id();
                has_cors |= compiled.has_cors();
                table.add(route.hosts(), &compiled);
            }
        }
        table.sort();
        let (pools, folders) = (compiler.pools.finish(), compiler.folders.finish());
        Ok(Site {
            table,
            limits: limits.clone(),
            identification: Arc::new(identification),
            names_ids,
            has_cors,
            pools,
            folders,
            file_store: FileStore::after(before.map(|site| &site.file_store), limits),
            rate_limits: rate_limits.finish(),
        })
    }

    /// Sets how requests are identified, for routes that set no field with an ID.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub fn with_identification(self, identification: Identification) -> Site {
        Site { identification: Arc::new(identification), ..self }
    }

    /// Returns whether each request needs an ID, because a field that a route sets has it, or because responses return it.
    pub fn needs_ids(&self) -> bool {
        self.names_ids || self.identification.returns()
    }

    /// Returns how requests are identified.
    pub fn identification(&self) -> &Arc<Identification> {
        &self.identification
    }

    /// Returns the limits of what clients may send and hold.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the upstream pools of the site's proxies.
    pub fn pools(&self) -> &SitePools {
        &self.pools
    }

    /// Returns the files in memory.
    pub fn file_store(&self) -> &FileStore {
        &self.file_store
    }

    /// Drops the files in memory whose folders `previous` had and this site does not have.
    pub fn drop_files_of(&self, previous: &Site) {
        // Most reloads keep all folders, and need not look at each file.
        if !self.folders.covers(&previous.folders) {
            self.file_store.keep_folders(&self.folders);
        }
    }

    /// Compiles the routes of a configuration's text.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub fn of_routes(text: &str, limits: &Limits) -> Arc<Site> {
        let listener = "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n";
        let registry = sluicegate_cc::Registry::builtin();
        let config = sluicegate_config::Config::from_toml(
            "test.toml",
            &format!("{listener}{text}"),
            &registry,
        );
        let config = config.expect("routes of a test");
        Arc::new(Site::compile(&config.routes, limits).expect("routes of a test"))
    }

    /// Returns a route for any host.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub fn any_route(&self) -> Option<&Arc<Route>> {
        self.table.any_route()
    }

    /// Finds the route of a request: of those that match, the one with the highest priority, then the most specific host, then one for
    /// the exact path, then the first whose regular expression matches, then the one with the longest prefix. Without a route the response
    /// is 404, or 405 if only the method does not match; it is 400 if the path has encoded slashes that the route does not take, or if
    /// those or parameters lead around a restricted route.
    ///
    /// # Errors
    /// There is no such route; the error is the response.
    pub fn find(&self, head: &RequestHead) -> Result<&Arc<Route>, Reply> {
        if head.method == "OPTIONS" && head.path.as_str() == "*" {
            return Err(allowing(204, "GET, HEAD", ""));
        }
        match self.table.find(head) {
            Found::Route(route) if !route.takes_path(&head.path) => Err(ambiguous_path()),
            Found::Route(route) if self.evades_restriction(head, route) => Err(ambiguous_path()),
            Found::Route(route) => Ok(route),
            _ if head.path.has_separators() => Err(ambiguous_path()),
            Found::OtherMethods(methods) => {
                Err(allowing(405, &methods.join(", "), "405 method not allowed\n"))
            }
            Found::Nothing => Err(not_found()),
        }
    }

    /// Returns the route that responds to a preflight: the one that the request itself would have. A route that is for OPTIONS and has
    /// no `cors` takes preflights as any other request. `None` if the request is none, or its route has no `cors`.
    pub fn find_preflight(&self, head: &RequestHead) -> Option<&Arc<Route>> {
        if !self.has_cors {
            return None;
        }
        let method = cors::method_of_preflight(head)?;
        if let Found::Route(own) = self.table.find(head)
            && own.names_methods()
        {
            return Some(own).filter(|own| own.has_cors());
        }
        match self.table.find_for(head, &head.path, method) {
            Found::Route(route)
                if route.has_cors()
                    && route.takes_path(&head.path)
                    && !self.evades_restriction(head, route) =>
            {
                Some(route)
            }
            _ => None,
        }
    }

    /// Returns whether a request would have another route as other servers may read its path, and that route is restricted. An
    /// upstream may be such a server, and serve what the restriction protects.
    fn evades_restriction(&self, head: &RequestHead, found: &Arc<Route>) -> bool {
        let Ok(readings) = head.path.other_readings() else {
            return true;
        };
        readings.iter().any(|path| match self.table.find_by_path(head, path) {
            Found::Route(route) => {
                !Arc::ptr_eq(route, found) && route.access().is_stricter_than(found.access())
            }
            Found::OtherMethods(_) | Found::Nothing => false,
        })
    }

    /// Routes a request of a client that may use every route.
    fn route(&self, head: &RequestHead) -> Routed<'_> {
        match self.find(head) {
            Ok(route) => match route.respond(head) {
                Some(reply) => Routed::Reply(reply),
                None => Routed::Origin(route),
            },
            Err(reply) => Routed::Reply(reply),
        }
    }
}

/// A request for a route with [`basic_auth`](Access::basic_auth), which the origin thread must verify.
#[derive(Debug)]
pub struct UnverifiedRequest {
    /// The route.
    pub route: Arc<Route>,
    /// Credentials that the client claims.
    pub credentials: Credentials,
}

/// A request for a file that is not in memory.
#[derive(Debug)]
pub struct FileMiss {
    /// The route.
    pub route: Arc<Route>,
    /// Place in memory for the file.
    pub vacancy: Vacancy,
}

#[cfg(test)]
mod tests;
