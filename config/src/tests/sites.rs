//! Routes have what their sites have, unless they say otherwise.

use std::time::Duration;

use super::parse;
use crate::field::Part as _;
use crate::{Config, Inheritable, RouteSettings};

const SITE: &str = r#"
[[listener]]
name = "l"
address = "[::]:1"
tls = "self-signed"
[[site]]
name = "shop"
host = ["shop.example", "*.shop.example"]
allow = "10.0.0.0/8"
deny = "10.9.0.0/16"
rate_limit = { rate = "10/s" }
basic_auth = { users_file = "users" }
cors = { origins = "*" }
redirects = "r.csv"
error_pages = { 404 = "404.html", 5xx = "sorry.html" }
compress = true
max_request_body = "1MiB"
timeout = "30s"
allow_encoded_slashes = true
[site.request_headers]
remove = "x-a"
set = { x-b = "site", x-c = "{host}" }
add = { x-d = ["1", "2"] }
[site.response_headers.set]
x-frame-options = "DENY"
"#;

fn with(route: &str) -> Config {
    let text = format!("{SITE}[[route]]\npath = \"/\"\nsite = \"shop\"\nfixed = {{}}\n{route}\n");
    let config = parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let printed = config.to_toml();
    assert_eq!(parse(&printed).as_ref(), Ok(&config), "{printed}");
    config
}

fn pages(settings: &RouteSettings) -> Vec<String> {
    let pages = settings.error_pages.iter();
    let pages = pages.map(|page| format!("{}={}", page.statuses, page.file.display()));
    pages.collect()
}

#[test]
fn a_route_has_all_that_its_site_has() {
    let config = with("");
    let (site, route) = (&config.sites[0], &config.routes[0]);
    assert_eq!(route.hosts(), site.hosts);
    let expected = RouteSettings {
        compression: route.settings().compression.clone(),
        ..site.settings.0.clone()
    };
    assert_eq!(*route.settings(), expected);
    assert!(route.settings().compression.settings().is_some());
    assert_eq!(route.own, RouteSettings::default());
    assert_eq!(route.site.name(), Some("shop"));
    let keys = RouteSettings::keys().into_iter().map(|key| key.name);
    let keys: Vec<&str> = ["host"].into_iter().chain(keys).collect();
    assert_eq!(route.site.inherited_keys(), keys);
    assert_eq!(config.unused_sites().count(), 0);
}

#[test]
fn what_a_route_says_replaces_what_its_site_says() {
    let config = with(
        "host = \"a.example\"\nallow = \"all\"\ndeny = \"10.1.0.0/16\"\nrate_limit = { rate = \"1/s\" }\n\
         basic_auth = { users_file = \"others\" }\ncors = \"off\"\nredirects = \"own.csv\"\ncompress = false\nallow_encoded_slashes = false\nmax_request_body = 7\ntimeout = \"1s\"",
    );
    let route = &config.routes[0];
    let settings = route.settings();
    assert_eq!(route.hosts(), route.own_hosts);
    assert_eq!(settings.allow.len(), 2);
    let both = ["10.1.0.0/16", "10.9.0.0/16"];
    assert!(settings.deny.iter().map(ToString::to_string).eq(both));
    assert_eq!(settings.rate_limit, route.own.rate_limit);
    assert_eq!(settings.basic_auth, route.own.basic_auth);
    assert_eq!(settings.cors, Inheritable::Off);
    assert!(settings.redirects.as_ref().is_some_and(|file| file.ends_with("own.csv")));
    assert!(settings.compression.settings().is_none());
    assert_eq!(settings.max_request_body, Some(7));
    assert_eq!(settings.timeout, Some(Duration::from_secs(1)));
    let both = ["deny", "request_headers", "response_headers", "error_pages"];
    assert_eq!(route.site.inherited_keys(), both);
}

#[test]
fn a_route_turns_off_the_password_and_the_rate_limit_of_its_site() {
    let config = with("rate_limit = \"off\"\nbasic_auth = \"off\"");
    let settings = config.routes[0].settings();
    assert_eq!(settings.rate_limit, Inheritable::Off);
    assert_eq!(settings.basic_auth, Inheritable::Off);
    assert!(settings.rate_limit.given().is_none() && settings.basic_auth.given().is_none());
    assert_eq!(settings.allow, config.sites[0].settings.0.allow);
}

#[test]
fn changes_of_a_route_come_after_those_of_its_site() {
    let config = with(
        "error_pages = { 404 = \"none.html\", 403 = \"no.html\" }\n[route.request_headers]\nremove = [\"x-b\", \"x-e\"]\n\
         set = { x-c = \"route\", x-f = \"route\" }\nadd = { x-d = \"3\" }\n[route.response_headers]\nremove = \"x-g\"",
    );
    let settings = config.routes[0].settings();
    let request = &settings.request_headers;
    assert_eq!(request.remove, ["x-a", "x-b", "x-e"]);
    let fields = |list: &[(String, String)]| {
        let lines = list.iter().map(|(name, value)| format!("{name}: {value}"));
        lines.collect::<Vec<_>>()
    };
    assert_eq!(fields(&request.set), ["x-c: route", "x-f: route"]);
    assert_eq!(fields(&request.add), ["x-d: 1", "x-d: 2", "x-d: 3"]);
    let [of_site, own] = &settings.response_headers[..] else {
        panic!("a table of each");
    };
    assert_eq!(fields(&of_site.edits.set), ["x-frame-options: DENY"]);
    assert_eq!(own.edits.remove, ["x-g"]);
    assert_eq!(pages(settings), ["403=no.html", "404=none.html", "5xx=sorry.html"]);
}

#[test]
fn a_class_of_error_pages_and_a_name_with_another_spelling_replace_those_of_a_site() {
    let config = with(
        "error_pages = { 4xx = \"all.html\" }\n[route.request_headers]\nremove = \"x_b\"\nset = { x_c = \"route\" }",
    );
    let settings = config.routes[0].settings();
    assert_eq!(pages(settings), ["4xx=all.html", "5xx=sorry.html"]);
    let names = settings.request_headers.set.iter().map(|(name, _)| name);
    assert!(names.eq(["x_c"]));
}

#[test]
fn a_site_that_no_route_belongs_to_is_known_as_unused() {
    let config = parse(SITE).unwrap();
    assert!(config.unused_sites().eq(["shop"]));
}
