//! Rank of a route among those that match a request, in the plainest way; the table of routes finds the first without it.

use std::cmp::Reverse;

use sluicegate_config::{HostPattern, PathPattern, Route};

use super::matching::PathMatch;
use crate::authority::host;
use crate::exchange::RequestHead;

/// Rank of a route that matches a request; the lowest comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: Reverse<u64>,
    host: Reverse<usize>,
    path: PathRank,
    conditions: Reverse<usize>,
    any_method: bool,
    place: usize,
}

/// Rank of a pattern of paths; of regular expressions by their place in the file, of prefixes by their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathRank {
    Exact,
    Regex(usize),
    Prefix(Reverse<usize>),
}

/// Rule by which one of two routes that match a request comes before the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankingRule {
    /// The higher priority.
    Priority,
    /// The more specific host.
    Host,
    /// An exact path before all others.
    ExactPath,
    /// A regular expression before a prefix.
    RegexBeforePrefix,
    /// The first regular expression in the file.
    FirstRegex,
    /// The longest prefix.
    LongestPrefix,
    /// The most conditions on fields and query.
    Conditions,
    /// A method that is named.
    Method,
    /// The first in the file.
    Place,
}

impl Rank {
    /// Returns the rank for a request of the route at a place of the file; `None` if host and path do not match.
    pub(super) fn of(place: usize, routes: &[Route], head: &RequestHead) -> Option<Rank> {
        let route = routes.get(place)?;
        let (host, pattern) = best_host(route, &host(&head.authority).to_ascii_lowercase())?;
        let paths = { route.paths.iter() }
            .filter(|path| PathMatch::compile(path).is_ok_and(|path| path.matches(&head.path)));
        let path = paths.map(|path| match path {
            PathPattern::Exact(_) => PathRank::Exact,
            PathPattern::Prefix(prefix) => PathRank::Prefix(Reverse(prefix.len())),
            PathPattern::Regex(_) => {
                // Routes with the same expression stand where the first of them does.
                let same = |other: &Route| {
                    let hosts = other.hosts();
                    let same_host = pattern.map_or(hosts.is_empty(), |own| hosts.contains(own));
                    same_host && other.priority == route.priority && other.paths.contains(path)
                };
                PathRank::Regex(routes.iter().position(same).unwrap_or(place))
            }
        });
        Some(Rank {
            priority: Reverse(route.priority),
            host: Reverse(host),
            path: path.min()?,
            conditions: Reverse(route.match_headers.len() + route.match_query.len()),
            any_method: route.methods.is_empty(),
            place,
        })
    }

    /// Returns the rule by which the route is behind the one that comes first.
    pub(super) fn is_behind(&self, first: &Rank) -> RankingRule {
        match () {
            () if self.priority != first.priority => RankingRule::Priority,
            () if self.host != first.host => RankingRule::Host,
            () if self.path != first.path => match (first.path, self.path) {
                (PathRank::Exact, _) => RankingRule::ExactPath,
                (PathRank::Regex(_), PathRank::Prefix(_)) => RankingRule::RegexBeforePrefix,
                (PathRank::Regex(_), _) => RankingRule::FirstRegex,
                (PathRank::Prefix(_), _) => RankingRule::LongestPrefix,
            },
            () if self.conditions != first.conditions => RankingRule::Conditions,
            () if self.any_method != first.any_method => RankingRule::Method,
            () => RankingRule::Place,
        }
    }
}

/// Returns the most specific host of a route that matches a host in lower case, with its rank; the highest is the most specific.
fn best_host<'a>(route: &'a Route, host: &str) -> Option<(usize, Option<&'a HostPattern>)> {
    if route.hosts().is_empty() {
        return Some((0, None));
    }
    let matching = route.hosts().iter().filter(|pattern| pattern.matches(host));
    let ranked = matching.map(|pattern| match pattern {
        HostPattern::Exact(_) => (usize::MAX, Some(pattern)),
        HostPattern::Suffix(suffix) => (suffix.len(), Some(pattern)),
    });
    ranked.max_by_key(|(rank, _)| *rank)
}
