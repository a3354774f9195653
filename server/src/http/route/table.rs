//! The lookup of a route by host, path and method.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_config::HostPattern;

use super::compiled::Route;

/// Routes by host, each list with the longest path first.
#[derive(Debug, Default)]
pub(super) struct Table {
    exact: HashMap<String, Vec<Arc<Route>>>,
    /// Routes by suffix of the host, longest first.
    suffixes: Vec<(String, Vec<Arc<Route>>)>,
    any: Vec<Arc<Route>>,
}

/// Result of a lookup.
pub(super) enum Found<'a> {
    /// The route matches.
    Route(&'a Arc<Route>),
    /// Routes match host and path, but for these methods only.
    OtherMethods(Vec<&'a str>),
    /// No route matches host and path.
    Nothing,
}

impl Table {
    pub(super) fn add(&mut self, hosts: &[HostPattern], route: &Arc<Route>) {
        if hosts.is_empty() {
            self.any.push(Arc::clone(route));
        }
        for host in hosts {
            let list = match host {
                HostPattern::Exact(host) => self.exact.entry(host.clone()).or_default(),
                HostPattern::Suffix(suffix) => {
                    let known = self.suffixes.iter().position(|(known, _)| known == suffix);
                    let at = known.unwrap_or_else(|| {
                        self.suffixes.push((suffix.clone(), Vec::new()));
                        self.suffixes.len() - 1
                    });
                    &mut self.suffixes[at].1
                }
            };
            list.push(Arc::clone(route));
        }
    }

    /// Sorts the lists; called once, after the last route was added.
    pub(super) fn sort(&mut self) {
        self.suffixes
            .sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        let suffixes = self.suffixes.iter_mut().map(|(_, list)| list);
        let exact = self.exact.values_mut();
        for list in exact.chain(suffixes).chain([&mut self.any]) {
            // Routes for certain methods come before those of the same path for any.
            list.sort_by_key(|route| {
                (
                    std::cmp::Reverse(route.path.len()),
                    route.methods.is_empty(),
                )
            });
        }
    }

    /// Returns a route for any host.
    #[cfg(test)]
    pub(super) fn any_route(&self) -> Option<&Arc<Route>> {
        self.any.first()
    }

    pub(super) fn find(&self, host: &str, path: &str, method: &str) -> Found<'_> {
        let lower;
        let host = if host.bytes().any(|b| b.is_ascii_uppercase()) {
            lower = host.to_ascii_lowercase();
            lower.as_str()
        } else {
            host
        };
        let exact = self.exact.get(host).into_iter();
        let suffixes = self.suffixes.iter().filter_map(|(suffix, list)| {
            (host.len() > suffix.len() && host.ends_with(suffix)).then_some(list)
        });
        let lists = exact.chain(suffixes).chain([&self.any]);
        let matches_path = |route: &&Arc<Route>| path.starts_with(&route.path);
        let mut others: Vec<&str> = Vec::new();
        for route in lists.flatten().filter(matches_path) {
            if route.methods.is_empty() || route.methods.iter().any(|known| known == method) {
                return Found::Route(route);
            }
            for other in &route.methods {
                if !others.contains(&other.as_str()) {
                    others.push(other);
                }
            }
        }
        if others.is_empty() {
            Found::Nothing
        } else {
            Found::OtherMethods(others)
        }
    }
}
