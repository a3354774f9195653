//! The lookup of a route by host, path, conditions and method.
//!
//! A lookup allocates nothing if a route matches and the host is in lower case. Its time grows with the logarithm of the
//! number of prefixes and with how deep they are nested, but linearly with the number of regular expressions of a host and with
//! that of different priorities.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sluicegate_config::HostPattern;

use super::compiled::Route;
use super::matching::{PathMatch, is_below};
use crate::authority::host;
use crate::exchange::RequestHead;

/// All routes, by priority.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The highest priority first.
    tiers: Vec<Tier>,
}

/// Routes of a priority, by host.
#[derive(Debug, Default)]
struct Tier {
    priority: u64,
    exact: HashMap<String, HostRoutes>,
    /// Routes by suffix of the host, which starts with a dot.
    suffixes: HashMap<String, HostRoutes>,
    /// Length of the longest suffix, bytes.
    longest_suffix: usize,
    any: HostRoutes,
}

/// Routes of a host, by path.
#[derive(Debug, Default)]
struct HostRoutes {
    exact: HashMap<String, Vec<Arc<Route>>>,
    /// Routes with regular expressions, in the order of the file.
    patterns: Vec<Arc<Route>>,
    /// Routes that add a slash to a path, until [`HostRoutes::sort`] places them.
    slashes: Vec<Arc<Route>>,
    /// Prefixes in the order of their octets.
    prefixes: Vec<Prefix>,
}

/// Routes of a prefix.
#[derive(Debug)]
struct Prefix {
    path: String,
    routes: Vec<Arc<Route>>,
    /// Place of the longest other prefix that this one begins with.
    shorter: Option<usize>,
}

/// Result of a lookup.
pub(super) enum Found<'a> {
    /// The route matches.
    Route(&'a Arc<Route>),
    /// Routes match host, path and conditions, but for these methods only.
    OtherMethods(Vec<&'a str>),
    /// No route matches host, path and conditions.
    Nothing,
}

impl Table {
    pub(super) fn add(&mut self, hosts: &[HostPattern], route: &Arc<Route>) {
        let priority = route.priority;
        let place = self.tiers.partition_point(|tier| tier.priority > priority);
        let is_there = self.tiers.get(place).is_some_and(|tier| tier.priority == priority);
        if !is_there {
            let tier = Tier { priority, ..Tier::default() };
            self.tiers.insert(place, tier);
        }
        self.tiers[place].add(hosts, route);
    }

    /// Sorts the lists; called once, after the last route was added.
    pub(super) fn sort(&mut self) {
        self.tiers.iter_mut().for_each(Tier::sort);
    }

    /// Returns a route for any host.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub(super) fn any_route(&self) -> Option<&Arc<Route>> {
        let mut routes = self.tiers.first()?.any.prefixes.iter().flat_map(|prefix| &prefix.routes);
        routes.find(|route| !route.adds_slash)
    }

    /// Finds the route of a request.
    pub(super) fn find(&self, head: &RequestHead) -> Found<'_> {
        self.find_by_path(head, &head.path)
    }

    /// Finds the route that a request would have with this path.
    pub(super) fn find_by_path(&self, head: &RequestHead, path: &str) -> Found<'_> {
        self.find_for(head, path, head.method_of_route())
    }

    /// Finds the route that a request would have with this path and method.
    pub(super) fn find_for(&self, head: &RequestHead, path: &str, method: &str) -> Found<'_> {
        let host = host(&head.authority);
        let lower = lower_case(host);
        let host = lower.as_deref().unwrap_or(host);
        let mut others: Vec<&str> = Vec::new();
        let hosts = self.tiers.iter().flat_map(|tier| tier.hosts(host));
        for route in hosts.flat_map(|routes| routes.matching(path)) {
            let conditions = &route.conditions;
            if !(conditions.fields_match(head) && conditions.query_matches(head.query.as_deref())) {
                continue;
            }
            if conditions.method_matches(method) {
                return Found::Route(route);
            }
            for other in &conditions.methods {
                if !others.contains(&other.as_str()) {
                    others.push(other);
                }
            }
        }
        if others.is_empty() { Found::Nothing } else { Found::OtherMethods(others) }
    }
}

impl Tier {
    fn add(&mut self, hosts: &[HostPattern], route: &Arc<Route>) {
        if hosts.is_empty() {
            self.any.add(route);
        }
        for host in hosts {
            let routes = match host {
                HostPattern::Exact(host) => self.exact.entry(host.clone()).or_default(),
                HostPattern::Suffix(suffix) => {
                    self.longest_suffix = self.longest_suffix.max(suffix.len());
                    self.suffixes.entry(suffix.clone()).or_default()
                }
            };
            routes.add(route);
        }
    }

    fn sort(&mut self) {
        let named = self.exact.values_mut().chain(self.suffixes.values_mut());
        for routes in named.chain([&mut self.any]) {
            routes.sort();
        }
    }

    /// Returns the routes of a host in lower case, those for the most specific pattern first.
    fn hosts<'s, 'h>(
        &'s self,
        host: &'h str,
    ) -> impl Iterator<Item = &'s HostRoutes> + use<'s, 'h> {
        let exact = self.exact.get(host).into_iter();
        let dots = host.bytes().enumerate().skip(1);
        let dots = dots.filter(|(_, byte)| *byte == b'.');
        let ends = dots.map(|(at, _)| &host[at..]);
        let suffixes = ends
            .filter(|end| end.len() <= self.longest_suffix)
            .filter_map(|end| self.suffixes.get(end));
        exact.chain(suffixes).chain([&self.any])
    }
}

/// Returns a host in lower case; `None` if it is that already.
pub(super) fn lower_case(host: &str) -> Option<String> {
    let has_upper = host.bytes().any(|b| b.is_ascii_uppercase());
    has_upper.then(|| host.to_ascii_lowercase())
}

/// Returns the order of routes with the same path: those with more conditions first, and of these the ones for certain methods.
fn by_conditions(route: &Route) -> (Reverse<usize>, bool) {
    let conditions = &route.conditions;
    (Reverse(conditions.count()), conditions.methods.is_empty())
}

impl HostRoutes {
    fn add(&mut self, route: &Arc<Route>) {
        let route = Arc::clone(route);
        match &route.path {
            PathMatch::Regex(_) => self.patterns.push(route),
            PathMatch::Exact(_) if route.adds_slash => self.slashes.push(route),
            PathMatch::Exact(path) => self.exact.entry(path.clone()).or_default().push(route),
            PathMatch::Prefix(path) => {
                let path = path.clone();
                self.prefixes.push(Prefix { path, routes: vec![route], shorter: None });
            }
        }
    }

    fn sort(&mut self) {
        self.place_slashes();
        // The sort is stable: routes for one prefix stay in the order of the file.
        self.prefixes.sort_by(|one, other| one.path.cmp(&other.path));
        self.prefixes.dedup_by(|later, first| {
            let is_same = later.path == first.path;
            if is_same {
                first.routes.append(&mut later.routes);
            }
            is_same
        });
        for at in 1..self.prefixes.len() {
            let path = &self.prefixes[at].path;
            // The longest prefix of an entry is the entry before it, or one of that entry's prefixes.
            let mut shorter = Some(at - 1);
            while let Some(place) = shorter
                && !path.starts_with(&self.prefixes[place].path)
            {
                shorter = self.prefixes[place].shorter;
            }
            self.prefixes[at].shorter = shorter;
        }
        let prefixes = self.prefixes.iter_mut().map(|prefix| &mut prefix.routes);
        for routes in self.exact.values_mut().chain(prefixes) {
            routes.sort_by_key(|route| by_conditions(route));
        }
        // Routes with the same expression stand where the first of them does.
        let mut places = HashMap::new();
        for (place, route) in self.patterns.iter().enumerate() {
            places.entry(route.path.regex().to_owned()).or_insert(place);
        }
        let place = |route: &Route| places.get(route.path.regex()).copied();
        self.patterns.sort_by_key(|route| (place(route), by_conditions(route)));
    }

    /// Places the routes that add a slash to a path where no other route has that path: behind regular expressions, and before shorter
    /// prefixes.
    fn place_slashes(&mut self) {
        let known: HashSet<&str> =
            self.prefixes.iter().map(|prefix| prefix.path.as_str()).collect();
        let free = self.slashes.iter().filter_map(|route| match &route.path {
            PathMatch::Exact(path)
                if !self.exact.contains_key(path) && !known.contains(path.as_str()) =>
            {
                Some(Prefix { path: path.clone(), routes: vec![Arc::clone(route)], shorter: None })
            }
            _ => None,
        });
        let free: Vec<Prefix> = free.collect();
        self.prefixes.extend(free);
        self.slashes = Vec::new();
    }

    /// Returns the routes that match a path: the exact ones, those whose expression matches, then the longest prefix first.
    fn matching<'s, 'p>(
        &'s self,
        path: &'p str,
    ) -> impl Iterator<Item = &'s Arc<Route>> + use<'s, 'p> {
        // A host without exact paths needs no hash.
        let exact = (!self.exact.is_empty()).then(|| self.exact.get(path));
        let patterns = self.patterns.iter().filter(|route| route.path.matches(path));
        // All that sort between a path and its longest prefix begin with that prefix.
        let last = self.prefixes.partition_point(|prefix| prefix.path.as_str() <= path);
        let nested = std::iter::successors(last.checked_sub(1), |at| self.prefixes[*at].shorter);
        let prefixes = nested.map(|at| &self.prefixes[at]);
        let prefixes = prefixes.filter(|prefix| is_below(&prefix.path, path));
        let exact = exact.flatten().into_iter().flatten();
        exact.chain(patterns).chain(prefixes.flat_map(|prefix| &prefix.routes))
    }
}
