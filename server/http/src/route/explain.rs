//! Explains the choice of a route, for operators.

use std::net::IpAddr;

use sluicegate_base::address::ValidatedAddress;
use sluicegate_config::Limits;

use super::Site;
use super::access::Denial;
use super::action::RouteAction;
use super::compiled::Route;
use super::error::SiteError;
use super::matching::{Conditions, PathMatch};
use super::rank::{Rank, RankingRule};
use super::table::{Found, lower_case};
use crate::authority::host;
use crate::exchange::{Reply, RequestHead};
use crate::proxy::{RequestRules, RouteProxy};
use crate::route::{OriginHandler, Routed};

/// Reason for which a route responds to a request, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteVerdict {
    /// The route responds.
    Responds,
    /// The route matches, but another one comes first.
    Outranked(RankingRule),
    /// The route is for other hosts.
    Host,
    /// The route is for other paths.
    Path,
    /// A condition on the fields does not hold.
    Fields,
    /// A condition on the query does not hold.
    Query,
    /// The route is for other methods.
    Method,
}

/// Explanation of the choice of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The response, or the kind of handler that produces it, in words.
    pub response: String,
    /// Rules of the route that hold for the request besides, in words.
    pub notes: Vec<String>,
    /// Verdict about each route, in the order of the file.
    pub verdicts: Vec<RouteVerdict>,
}

/// Explains which of the routes responds to a request of a client, and why each of the others does not.
///
/// # Errors
/// The routes cannot be compiled.
pub fn explain(
    routes: &[sluicegate_config::Route],
    limits: &Limits,
    head: &RequestHead,
    client: Option<IpAddr>,
) -> Result<Explanation, SiteError> {
    let site = Site::compile(routes, limits)?;
    let place = match site.table.find(head) {
        Found::Route(route) => Some(route.place),
        Found::OtherMethods(_) | Found::Nothing => None,
    };
    let first = place.and_then(|place| Rank::of(place, routes, head));
    let verdicts = (0..routes.len()).map(|at| {
        if place == Some(at) {
            Ok(RouteVerdict::Responds)
        } else {
            verdict(at, routes, first.as_ref(), head)
        }
    });
    Ok(Explanation {
        verdicts: verdicts.collect::<Result<_, _>>()?,
        response: response(&site, head, client),
        notes: place.map_or_else(Vec::new, |place| notes(&routes[place])),
    })
}

/// Returns the verdict about a route that does not respond; `first` is the rank of the one that does.
fn verdict(
    at: usize,
    routes: &[sluicegate_config::Route],
    first: Option<&Rank>,
    head: &RequestHead,
) -> Result<RouteVerdict, SiteError> {
    let route = &routes[at];
    let host = host(&head.authority);
    let lower = lower_case(host);
    let host = lower.as_deref().unwrap_or(host);
    let hosts = route.hosts();
    if !(hosts.is_empty() || hosts.iter().any(|pattern| pattern.matches(host))) {
        return Ok(RouteVerdict::Host);
    }
    let paths = route.paths.iter().map(PathMatch::compile);
    let paths = paths.collect::<Result<Vec<PathMatch>, SiteError>>()?;
    if !paths.iter().any(|path| path.matches(&head.path)) {
        return Ok(RouteVerdict::Path);
    }
    let conditions = Conditions::compile(route)
        .map_err(|field| SiteError::Field { route: route.label(), field })?;
    Ok(match () {
        () if !conditions.fields_match(head) => RouteVerdict::Fields,
        () if !conditions.query_matches(head.query.as_deref()) => RouteVerdict::Query,
        () if !conditions.method_matches(head.method_of_route()) => RouteVerdict::Method,
        () => {
            let rank = Rank::of(at, routes, head);
            let rule = rank.zip(first).map(|(rank, first)| rank.is_behind(first));
            RouteVerdict::Outranked(rule.unwrap_or(RankingRule::Place))
        }
    })
}

/// Returns what responds to a request, in words.
fn response(site: &Site, head: &RequestHead, client: Option<IpAddr>) -> String {
    if let Found::Route(route) = site.table.find(head)
        && !route.takes_path(&head.path)
    {
        return "status 400: an encoded slash needs `allow_encoded_slashes`, and no file has one"
            .to_owned();
    }
    let mut handler = handler(site, head);
    let Ok(route) = site.find(head) else {
        return handler;
    };
    if let Some(reply) = route.redirect(head) {
        handler = format!("{} by `redirects`", status(&reply));
    }
    let access = route.access();
    if access.basic_auth().is_some() {
        handler.push_str(", for a valid password");
    }
    if access.is_open() {
        return handler;
    }
    match client.map(|client| access.check(ValidatedAddress::supposed(client))) {
        None => format!("{handler}, if `allow` and `deny` admit the client (see --from)"),
        Some(Ok(())) => handler,
        Some(Err(Denial::Denied)) => "status 403: the client is in `deny`".to_owned(),
        Some(Err(Denial::NotAllowed)) => "status 403: the client is not in `allow`".to_owned(),
    }
}

/// Returns what else holds for requests to a route.
fn notes(route: &sluicegate_config::Route) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(limit) = route.settings().rate_limit.given() {
        let (rate, burst) = (limit.rate, limit.burst());
        let mut note = format!("rate_limit: {rate} for each client, {burst} at once");
        if route.site.inherited_keys().contains(&"rate_limit") {
            note.push_str(", all routes of the site together");
        }
        notes.push(note);
    }
    notes
}

/// Returns the upstreams of a route, and the path that they receive if it is another one, in words.
fn upstreams(route: &Route, proxy: &RouteProxy, head: &RequestHead) -> String {
    let pool = &proxy.settings.pool.pool().name;
    let (key, path) = match route.rewrite(head) {
        Some(Err(_)) => return "status 400: `rewrite` makes no valid path".to_owned(),
        Some(Ok(path)) => ("rewrite", path.forward(0).to_owned()),
        None if proxy.settings.strip_prefix => {
            let rest = RequestRules::rest(route, &head.path);
            let slash = if rest.starts_with('/') { "" } else { "/" };
            ("strip_prefix", format!("{slash}{rest}"))
        }
        None => return format!("proxy to {pool}"),
    };
    format!("proxy to {pool}, which receives {path} by `{key}`")
}

/// Returns the response of the handler of a request, or the kind of the handler, in words.
fn handler(site: &Site, head: &RequestHead) -> String {
    let route = match site.route(head) {
        Routed::Reply(reply) => return status(&reply),
        Routed::Origin(route) => route,
    };
    let Some(fallback) = &route.fallback else {
        return kind(route, &route.action, head);
    };
    let fallback = kind(route, fallback, head);
    if matches!(head.method.as_str(), "GET" | "HEAD") {
        let files = kind(route, &route.action, head);
        format!("{files}, or {fallback} where there is none")
    } else {
        format!("{fallback} (files are for GET and HEAD)")
    }
}

/// Returns the response of a handler of a route, or its kind, in words.
fn kind(route: &Route, action: &RouteAction, head: &RequestHead) -> String {
    match action {
        RouteAction::Origin(OriginHandler::Files(folder)) => {
            format!("files in {}", folder.files.root.display())
        }
        RouteAction::Origin(OriginHandler::Proxy(proxy)) => upstreams(route, proxy, head),
        RouteAction::Origin(OriginHandler::FastCgi(fastcgi)) => {
            let (pool, root) = (fastcgi.settings.pool(), fastcgi.settings.root.display());
            format!("scripts in {root} by {}", pool.pool().name)
        }
        RouteAction::Origin(OriginHandler::ConnectUdp(_)) => "tunnels for UDP".to_owned(),
        RouteAction::Local(handler) => status(&route.unedited(handler, head)),
    }
}

/// Returns the status of a response in words, and what it says about other requests.
fn status(reply: &Reply) -> String {
    let told = reply.headers.iter().filter(|(name, _)| name == "location" || name == "allow");
    let told = told
        .map(|(name, value)| format!(", {name}: {}", String::from_utf8_lossy(value.as_bytes())));
    format!("status {}{}", reply.status, told.collect::<String>())
}

#[cfg(test)]
mod tests;
