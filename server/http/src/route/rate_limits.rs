//! Rate limits of the routes of a site.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_config::Inheritable;

use crate::rate_limit::RateLimit;

/// The rate limits of a site, by what each belongs to, with their settings.
#[derive(Debug, Default)]
pub(super) struct SiteRateLimits(HashMap<String, (sluicegate_config::RateLimit, Arc<RateLimit>)>);

/// Collects the rate limits of a site while its routes are compiled.
#[derive(Debug)]
pub(super) struct RateLimitCompiler<'a> {
    previous: &'a SiteRateLimits,
    limits: SiteRateLimits,
}

impl<'a> RateLimitCompiler<'a> {
    /// Starts without a limit. Limits that `previous` has with the same settings keep their counts.
    pub(super) fn new(previous: &'a SiteRateLimits) -> RateLimitCompiler<'a> {
        RateLimitCompiler { previous, limits: SiteRateLimits::default() }
    }

    /// Compiles the limit of a route; `None` if it has none.
    pub(super) fn compile(&mut self, route: &sluicegate_config::Route) -> Option<Arc<RateLimit>> {
        let settings = route.settings().rate_limit.given()?;
        let owner = owner(route);
        let known = |limits: &SiteRateLimits| {
            let (before, limit) = limits.0.get(&owner)?;
            (before == settings).then(|| Arc::clone(limit))
        };
        // Another route of the same site comes first.
        let limit = known(&self.limits).or_else(|| known(self.previous));
        let limit = limit.unwrap_or_else(|| Arc::new(RateLimit::new(settings)));
        let entry = (settings.clone(), Arc::clone(&limit));
        self.limits.0.insert(owner, entry);
        Some(limit)
    }

    /// Returns all limits that were compiled.
    pub(super) fn finish(self) -> SiteRateLimits {
        self.limits
    }
}

/// Returns the name of what a route's limit belongs to: its site, if it has the limit from there, or the route. No two routes are
/// for the same requests.
fn owner(route: &sluicegate_config::Route) -> String {
    if let (Inheritable::Unset, Some(site)) = (&route.own.rate_limit, route.site.name()) {
        return format!("site {site}");
    }
    let conditions = (&route.match_headers, &route.match_query);
    format!("{:?}", (route.hosts(), &route.paths, &route.methods, conditions))
}
