//! Finds the handler of a request, and answers what needs none.
//!
//! A [`Site`] is compiled once from the configuration and shared by all workers; asking it reads no file and waits for
//! nothing. What takes a file or another server it names a route for, and the worker's origin thread answers.

mod compiled;
mod edits;
mod host;
mod local;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
mod table;

use std::sync::Arc;

use sluicegate_config::Limits;

pub use self::compiled::{Action, Route, SiteError};
use self::host::host;
use self::local::{allowing, generate, not_found};
use self::table::{Found, Table};
use crate::http::exchange::{Reply, RequestHead};
use crate::http::proxy::{PoolCompiler, SitePools};

/// Every route with its handler, and the limits for requests; immutable.
#[derive(Debug)]
pub struct Site {
    table: Table,
    limits: Limits,
    pools: SitePools,
    /// Some route needs an origin thread.
    needs_origin: bool,
}

/// A site's answer to a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// This reply, at once.
    Reply(Reply),
    /// The route's handler on the origin thread answers.
    Origin(Arc<Route>),
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
        Site::compile_after(&SitePools::default(), routes, limits)
    }

    /// Compiles the site that replaces this one at a reload. Upstream pools whose definition is the same in both stay the
    /// same pools, so they keep their connections and health.
    ///
    /// # Errors
    /// As [`Site::compile`].
    pub fn recompile(
        &self,
        routes: &[sluicegate_config::Route],
        limits: &Limits,
    ) -> Result<Site, SiteError> {
        Site::compile_after(&self.pools, routes, limits)
    }

    fn compile_after(
        previous: &SitePools,
        routes: &[sluicegate_config::Route],
        limits: &Limits,
    ) -> Result<Site, SiteError> {
        let mut table = Table::default();
        let mut needs_origin = false;
        let mut pools = PoolCompiler::new(previous);
        for route in routes {
            let compiled = Route::compile(route, limits, &mut pools)?;
            needs_origin |= matches!(compiled.action, Action::Files(_) | Action::Proxy(_));
            table.add(&route.hosts, &Arc::new(compiled));
        }
        table.sort();
        Ok(Site {
            table,
            limits: limits.clone(),
            pools: pools.finish(),
            needs_origin,
        })
    }

    /// Returns the limits of what clients may send and hold.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the upstream pools of the site's proxies.
    pub fn pools(&self) -> &SitePools {
        &self.pools
    }

    /// Whether some route is answered by an origin thread.
    pub fn needs_origin(&self) -> bool {
        self.needs_origin
    }

    /// Returns a route for any host.
    #[cfg(test)]
    pub(crate) fn any_route(&self) -> Option<&Arc<Route>> {
        self.table.any_route()
    }

    /// Answers a request, or says which route's handler does: the host decides first, then the longest prefix of the
    /// path, then the method. 404 where there is none, 405 where only the method does not fit.
    pub fn answer(&self, head: &RequestHead) -> Answer {
        if head.method == "OPTIONS" && head.path.as_str() == "*" {
            return Answer::Reply(allowing(204, "GET, HEAD", ""));
        }
        let route = match self
            .table
            .find(host(&head.authority), &head.path, &head.method)
        {
            Found::Route(route) => route,
            Found::OtherMethods(methods) => {
                return Answer::Reply(allowing(
                    405,
                    &methods.join(", "),
                    "405 method not allowed\n",
                ));
            }
            Found::Nothing => return Answer::Reply(not_found()),
        };
        let mut reply = match &route.action {
            // What is left behind `/app` of `/app../x` is no path below it, and would be another one upstream.
            Action::Proxy(proxy)
                if proxy.settings.strip_prefix && route.ends_within_segment(&head.path) =>
            {
                not_found()
            }
            Action::Files(_) | Action::Proxy(_) => return Answer::Origin(Arc::clone(route)),
            Action::Redirect(location) => location.reply(head, route.forward_rest(&head.path)),
            _ if !matches!(head.method.as_str(), "GET" | "HEAD") => {
                allowing(405, "GET, HEAD", "405 only GET and HEAD\n")
            }
            Action::Fixed(reply) => reply.clone(),
            Action::Generate { max_size } => generate(route.below(&head.path), *max_size),
        };
        route.edit_response(&mut reply.headers);
        Answer::Reply(reply)
    }
}

#[cfg(test)]
mod tests;
