//! Rewrites what a response says about places on an upstream into places on this server: redirects and cookies.

use http::HeaderValue;
use http::header::{LOCATION, SET_COOKIE};
use sluicegate_config::{HostHeader, Proxy, RewriteLocation};

use super::rules::RequestRules;
use crate::exchange::{Fields, RequestHead};

/// Names and paths that an upstream and its client have for the same places.
struct Places<'a> {
    mode: RewriteLocation,
    /// Hosts by which the upstream may name itself.
    upstream: [&'a str; 2],
    /// Host that the client asked for.
    client: &'a str,
    /// Prefix that upstreams do not know, without a slash at its end; empty if they know all paths.
    prefix: &'a str,
}

/// Rewrites the fields of a response with a status as `rewrite_location` says. `upstream` is the upstream's own host.
pub(super) fn rewrite(
    status: u16,
    fields: &mut Fields,
    proxy: &Proxy,
    rules: &dyn RequestRules,
    head: &RequestHead,
    upstream: &str,
) {
    let has_location = status == 201 || (300..400).contains(&status);
    let has_cookies = proxy.rewrite_location == RewriteLocation::All;
    let is_off = proxy.rewrite_location == RewriteLocation::Off || proxy.rewrite.is_some();
    if is_off || !(has_location || has_cookies) {
        return;
    }
    let named = match &proxy.host {
        HostHeader::Name(name) => name,
        HostHeader::Client | HostHeader::Upstream => upstream,
    };
    let places = Places {
        mode: proxy.rewrite_location,
        upstream: [upstream, named],
        client: &head.authority,
        prefix: if proxy.strip_prefix { rules.prefix().trim_end_matches('/') } else { "" },
    };
    for (name, value) in fields.iter_mut() {
        let changed = match value.to_str() {
            Ok(text) if has_location && *name == LOCATION => places.location(text),
            Ok(text) if has_cookies && *name == SET_COOKIE => places.cookie(text),
            _ => None,
        };
        if let Some(changed) = changed.and_then(|text| HeaderValue::try_from(text).ok()) {
            *value = changed;
        }
    }
}

impl Places<'_> {
    /// Returns the place for the client of a redirect; `None` if it stays.
    fn location(&self, location: &str) -> Option<String> {
        let Some((scheme, rest)) = split_scheme(location) else {
            let is_path = location.starts_with('/') && self.mode == RewriteLocation::All;
            return is_path.then(|| self.path(location)).flatten();
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if self.upstream.iter().any(|own| is_same_host(own, authority, scheme)) {
            // What follows must not become the name of another host.
            let path = format!("/{}", path.trim_start_matches(['/', '\\']));
            return Some(self.path(&path).unwrap_or(path));
        }
        let is_own = self.mode == RewriteLocation::All
            && is_same_host(self.client, authority, scheme)
            && path.starts_with('/');
        let path = if is_own { self.path(path)? } else { return None };
        Some(format!("{}{authority}{path}", &location[..location.len() - rest.len()]))
    }

    /// Returns an upstream's path with the prefix that it does not know; `None` if it has that already.
    fn path(&self, path: &str) -> Option<String> {
        let end = path.find(['?', '#']).unwrap_or(path.len());
        let rest = path[..end].strip_prefix(self.prefix);
        let has_it = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        (!has_it).then(|| format!("{}{path}", self.prefix))
    }

    /// Returns a cookie with a path on this server, and without the domain of the upstream; `None` if it stays.
    fn cookie(&self, cookie: &str) -> Option<String> {
        let mut is_changed = false;
        let parts = cookie.split(';').enumerate().filter_map(|(place, part)| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (name.trim(), value.trim());
            if place == 0 {
                return Some(part.to_owned());
            }
            if name.eq_ignore_ascii_case("domain") {
                let domain = value.trim_start_matches('.');
                let is_upstreams = { self.upstream.iter() }
                    .any(|own| crate::authority::host(own).eq_ignore_ascii_case(domain));
                is_changed |= is_upstreams;
                return (!is_upstreams).then(|| part.to_owned());
            }
            if name.eq_ignore_ascii_case("path")
                && value.starts_with('/')
                && let Some(path) = self.path(value)
            {
                is_changed = true;
                return Some(format!(" {name}={path}"));
            }
            Some(part.to_owned())
        });
        let parts: Vec<String> = parts.collect();
        is_changed.then(|| parts.join(";"))
    }
}

/// Returns the scheme of an absolute URL, empty for one without, and what follows the two slashes.
fn split_scheme(location: &str) -> Option<(&str, &str)> {
    if let Some(rest) = location.strip_prefix("//") {
        return Some(("", rest));
    }
    let (scheme, rest) = location.split_once("://")?;
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    is_web.then_some((scheme, rest))
}

/// Returns whether two authorities are the same, one of which may leave out the port of the scheme.
fn is_same_host(own: &str, other: &str, scheme: &str) -> bool {
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    let short = |authority| str::strip_suffix(authority, port).unwrap_or(authority);
    !own.is_empty() && short(own).eq_ignore_ascii_case(short(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(mode: RewriteLocation, prefix: &'static str) -> Places<'static> {
        Places {
            mode,
            upstream: ["127.0.0.1:3000", "app.internal"],
            client: "edge.example",
            prefix,
        }
    }

    #[test]
    fn a_redirect_to_the_upstream_leads_to_this_server() {
        let places = places(RewriteLocation::Upstream, "/app");
        for (location, expected) in [
            ("http://127.0.0.1:3000/login?a=1#b", Some("/app/login?a=1#b")),
            ("http://APP.internal:80/login", Some("/app/login")),
            ("//app.internal", Some("/app/")),
            ("http://app.internal?a", Some("/app/?a")),
            ("http://app.internal/app/login", Some("/app/login")),
            ("http://app.internal//evil.example", Some("/app/evil.example")),
            ("http://app.internal/\\evil.example", Some("/app/evil.example")),
            ("http://127.0.0.1:3001/login", None),
            ("http://app.internal.evil.example/", None),
            ("https://edge.example/login", None),
            ("/login", None),
            ("login", None),
            ("", None),
        ] {
            assert_eq!(places.location(location).as_deref(), expected, "{location}");
        }
    }

    #[test]
    fn paths_get_the_prefix_that_was_stripped_where_all_are_rewritten() {
        let places = places(RewriteLocation::All, "/app");
        for (location, expected) in [
            ("/login", Some("/app/login")),
            ("/", Some("/app/")),
            ("/apple", Some("/app/apple")),
            ("/app/login", None),
            ("/app?x=/", None),
            ("https://edge.example/login", Some("https://edge.example/app/login")),
            ("https://edge.example/app/", None),
            ("https://other.example/login", None),
            ("login", None),
        ] {
            assert_eq!(places.location(location).as_deref(), expected, "{location}");
        }
        for (cookie, expected) in [
            ("a=1; Path=/; Secure", Some("a=1; Path=/app/; Secure")),
            ("path=/; path=/x", Some("path=/; path=/app/x")),
            ("a=1; Domain=.App.internal; HttpOnly", Some("a=1; HttpOnly")),
            ("a=1; Domain=127.0.0.1", Some("a=1")),
            ("a=1; Domain=edge.example; Path=/app", None),
            ("a=1", None),
        ] {
            assert_eq!(places.cookie(cookie).as_deref(), expected, "{cookie}");
        }
    }

    #[test]
    fn without_a_prefix_paths_stay() {
        let places = places(RewriteLocation::All, "");
        assert_eq!(places.location("/login"), None);
        assert_eq!(places.location("http://app.internal/login").as_deref(), Some("/login"));
        assert_eq!(places.cookie("a=1; Path=/"), None);
    }
}
