//! Properties of every request's lookup.

use std::sync::LazyLock;

use sluicegate_base::properties::Bytes;
use sluicegate_cc::Registry;
use sluicegate_config::{Config, Handler, HostPattern, PathPattern, Route, compile_regex};

use super::matching::parameters;
use super::rank::Rank;
use super::table::Found;
use super::{Routed, Site};
use crate::authority::host;
use crate::exchange::{Body, RequestHead};
use crate::path::CanonicalPath;
use crate::properties::request_head;
use crate::target::Query;

/// Hosts of all kinds, prefixes of each other, exact paths, regular expressions, methods and conditions that share a path with
/// others, priorities, redirects to all that they may name.
/// `max_request_body` tells one from another.
const ROUTES: &str = r#"
[[listener]]
name = "trial"
tls = "self-signed"
address = "127.0.0.1:0"
[[route]]
path = "/"
max_request_body = 0
generate = {}
[[route]]
path = "/ab"
method = ["GET"]
max_request_body = 1
fixed = { body = "ab" }
[[route]]
path = "/cd"
method = ["GET", "PUT"]
max_request_body = 2
fixed = { body = "cd" }
[[route]]
path = "/ab"
max_request_body = 3
generate = {}
[[route]]
path = "/ab/"
host = ["a.example", "*.example"]
max_request_body = 4
redirect = { location = "{path}{query}" }
[[route]]
path = "/go/"
host = ["*.b.example", "a.example"]
max_request_body = 5
redirect = { location = "/{rest}" }
[[route]]
path = "/go/"
host = ["*.example"]
method = ["POST"]
max_request_body = 6
redirect = { location = "{rest}{query}" }
[[route]]
path = "/to"
max_request_body = 7
redirect = { location = "https://{host}{rest}" }
[[route]]
path = "/bytes/"
max_request_body = 8
generate = { max_size = "1KiB" }
[[route]]
path = ["= /ab", "= /go/"]
max_request_body = 9
match_query = "a"
fixed = { body = "exact" }
[[route]]
path = ["~ [.]b$", "/cd/ab"]
method = "GET"
max_request_body = 10
fixed = { body = "regex" }
[[route]]
path = "~ ^/[ac]"
host = "*.b.example"
max_request_body = 11
redirect = { location = "{path}{query}" }
[[route]]
path = "~ b$"
host = "a.example"
max_request_body = 12
fixed = { body = "any" }
[[route]]
path = "~ a"
host = "a.example"
max_request_body = 13
fixed = { body = "another" }
[[route]]
path = "~ b$"
host = "a.example"
match_query = "a"
max_request_body = 14
fixed = { body = "query" }
[[route]]
path = "~ b$"
host = "a.example"
method = "PUT"
max_request_body = 15
fixed = { body = "method" }
[[route]]
path = "/"
method = "OPTIONS"
priority = 2
max_request_body = 16
fixed = { body = "preflight" }
[[route]]
path = "/ab"
host = "*.example"
method = ["OPTIONS", "PUT"]
priority = 1
max_request_body = 17
fixed = { body = "first" }
[[route]]
path = ["~ b$", "= /go/"]
match_query = "b"
priority = 1
max_request_body = 18
fixed = { body = "first of expressions" }
[[route]]
path = "/cd/"
priority = 2
match_query = "a"
max_request_body = 19
fixed = { body = "first of prefixes" }
"#;

struct Known {
    config: Config,
    site: Site,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let config = Config::from_toml("trial", ROUTES, &Registry::builtin());
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    let site = Site::compile(&config.routes, &config.limits);
    Known { site: site.expect("routes without files"), config }
});

/// Looks a request up: method, authority, path and query, 0x1e between them. Returns whether a route matches.
pub fn route(bytes: &[u8]) -> bool {
    let mut bytes = Bytes::new(bytes);
    let [method, mut authority, mut path, query] = [0; 4].map(|_: u8| bytes.text());
    // The check of a head lets only these pass.
    authority.retain(|c| c.is_ascii_graphic() && !"@/?#\\".contains(c));
    path.retain(|c| c.is_ascii_graphic() && !"?#".contains(c));
    path.insert(0, '/');
    let Ok(path) = CanonicalPath::parse(&path) else {
        return false;
    };
    let head = RequestHead {
        authority,
        query: Some(query).filter(|query| !query.is_empty()).map(|query| Query::new(&query)),
        ..request_head(method, path)
    };
    let Known { config, site } = &*KNOWN;
    let host = host(&head.authority);
    let expected = chosen(config, &host.to_ascii_lowercase(), &head);
    let found = match site.table.find(&head) {
        Found::Route(route) => Some(Ok(route.max_request_body)),
        Found::OtherMethods(_) => Some(Err(())),
        Found::Nothing => None,
    };
    assert_eq!(found, expected, "{head:?}");
    assert_eq!(found, explained(config, &head), "{head:?}");
    let Routed::Reply(reply) = site.route(&head) else {
        panic!("no route here needs an origin");
    };
    if let Body::Generated(_) = &reply.body {
        let numbered = |route: &&Route| found == route.settings().max_request_body.map(Ok);
        let handler = config.routes.iter().find(numbered).map(|route| &route.handler);
        let allowed = matches!(handler, Some(Handler::Generate(generate)) if reply.body.len() <= generate.max_size);
        assert!(allowed, "{head:?}: {reply:?}");
    }
    if let Some((_, location)) = reply.headers.iter().find(|(name, _)| name == "location") {
        check_location(location.as_bytes(), host);
    }
    found.is_some()
}

/// Returns the number of the route that should match, in the plainest way; an error if only its methods do not.
fn chosen(config: &Config, host: &str, head: &RequestHead) -> Option<Result<u64, ()>> {
    // A name ranks before a suffix, a longer suffix before a shorter one, and both before any host.
    let fits = |pattern: &HostPattern| match pattern {
        HostPattern::Exact(name) => (name == host).then_some(usize::MAX),
        HostPattern::Suffix(end) => {
            (host.ends_with(end.as_str()) && host.len() > end.len()).then_some(end.len())
        }
    };
    let rank = |hosts: &[HostPattern]| match hosts {
        [] => Some(0),
        hosts => hosts.iter().filter_map(fits).max(),
    };
    let all = config.routes.iter().rev().filter(|route| conditions_hold(route, head));
    let all = all.filter_map(|route| {
        let path = route.paths.iter().filter_map(|path| path_rank(path, &head.path, config));
        Some(((route.priority, rank(route.hosts())?, path.max()?), route))
    });
    let all: Vec<_> = all.collect();
    let takes = |route: &Route| route.methods.is_empty() || route.methods.contains(&head.method);
    let best = all.iter().filter(|(_, route)| takes(route)).max_by_key(|(of_pattern, route)| {
        let conditions = route.match_headers.len() + route.match_query.len();
        (*of_pattern, conditions, !route.methods.is_empty())
    });
    if all.is_empty() {
        return None;
    }
    let number = best.and_then(|(_, route)| route.settings().max_request_body);
    Some(number.ok_or(()))
}

/// Returns the number of the route that comes first by the rank that operators are told; an error if only its methods do not match.
fn explained(config: &Config, head: &RequestHead) -> Option<Result<u64, ()>> {
    let routes = &*config.routes;
    let places = (0..routes.len()).filter(|at| conditions_hold(&routes[*at], head));
    let ranked = places.filter_map(|at| Some((Rank::of(at, routes, head)?, &routes[at])));
    let ranked: Vec<_> = ranked.collect();
    let takes = |route: &Route| route.methods.is_empty() || route.methods.contains(&head.method);
    let taking = ranked.iter().filter(|(_, route)| takes(route));
    let first = taking.min_by(|(one, _), (other, _)| one.cmp(other));
    let number = first.and_then(|(_, route)| route.settings().max_request_body);
    (!ranked.is_empty()).then(|| number.ok_or(()))
}

/// Returns how specific a pattern is that matches: an exact path before an expression, and that before a longer prefix. Of
/// expressions, the first in the file comes first. No expression here stands behind another for a part of its hosts alone.
fn path_rank(pattern: &PathPattern, path: &str, config: &Config) -> Option<usize> {
    match pattern {
        PathPattern::Exact(exact) => (path == exact).then_some(usize::MAX),
        PathPattern::Regex(regex) => {
            let place = config.routes.iter().position(|route| route.paths.contains(pattern));
            let regex = compile_regex(regex).expect("a valid expression");
            let rank = usize::MAX - 1 - place.unwrap_or_default();
            regex.is_match(path).then_some(rank)
        }
        PathPattern::Prefix(prefix) => {
            let below = prefix.trim_end_matches('/').to_owned() + "/";
            (path == prefix || path.starts_with(&below)).then_some(prefix.len())
        }
    }
}

/// Returns whether the query has each parameter that the route's conditions name; they ask for no values.
fn conditions_hold(route: &Route, head: &RequestHead) -> bool {
    let query = head.query.as_deref().unwrap_or_default();
    let is_there = |name: &str| parameters(query, name).next().is_some();
    route.match_query.iter().all(|condition| is_there(&condition.0.name))
}

/// Checks that a client's path never becomes another host.
fn check_location(location: &[u8], host: &str) {
    let start = format!("https://{host}");
    if let Some(rest) = location.strip_prefix(start.as_bytes()) {
        assert!(matches!(rest.first(), None | Some(b'/')), "{location:?}");
        return;
    }
    let inside = !matches!(location, [b'/', b'/' | b'\\', ..]) && location.starts_with(b"/");
    assert!(inside, "{}", String::from_utf8_lossy(location));
}
