//! Tests what a route changes in fields, and what a proxy learns of its route.

use http::{HeaderName, HeaderValue};

use super::*;
use crate::http::exchange::ReplyFields;
use crate::http::path::CanonicalPath;
use crate::http::proxy::RequestRules;

/// Returns the names that are left of `x-a` and `x-b` in a request to a route with these edits.
fn left(edits: &str) -> Vec<String> {
    let text = format!(
        "[[route]]\npath = \"/\"\nfixed = {{ body = \"\" }}\n[route.request_headers]\n{edits}\n"
    );
    let site = Site::of_routes(&text, &limits());
    let line = |name| (HeaderName::from_static(name), HeaderValue::from_static("1"));
    let mut fields = vec![line("x-a"), line("x-b")];
    site.any_route().unwrap().edit_request(&mut fields);
    let lines = fields.iter();
    lines
        .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
        .collect()
}

#[test]
fn fields_are_only_removed_or_only_set() {
    assert_eq!(left("remove = [\"x-a\"]"), ["x-b=1"]);
    assert_eq!(left("set = { x-a = \"2\" }"), ["x-b=1", "x-a=2"]);
    assert_eq!(left("add = { x-a = \"2\" }"), ["x-a=1", "x-b=1", "x-a=2"]);
}

#[test]
fn a_proxy_learns_the_rest_of_a_path_and_which_fields_its_route_sets() {
    let text = "[[route]]\npath = \"/app/\"\nproxy = { upstreams = \"127.0.0.1:1\" }\n\
                [route.request_headers]\nset = { x-a = \"1\" }\nadd = { x-b = \"1\" }\n";
    let site = Site::of_routes(text, &limits());
    let route = site.any_route().unwrap();
    let path = CanonicalPath::parse("/app/x%2By").unwrap();
    assert_eq!(RequestRules::rest(&**route, &path), "x%2By");
    assert!(route.sets(&HeaderName::from_static("x-a")));
    assert!(!route.sets(&HeaderName::from_static("x-b")));
}

#[test]
fn a_proxy_learns_which_fields_its_route_removes_for_good() {
    let text = "[[route]]\npath = \"/\"\nproxy = { upstreams = \"127.0.0.1:1\" }\n\
                [route.request_headers]\nremove = [\"x-a\", \"x-b\", \"x-c\"]\n\
                set = { x-b = \"1\" }\nadd = { x-c = \"1\" }\n";
    let site = Site::of_routes(text, &limits());
    let route = site.any_route().unwrap();
    for (name, removed) in [
        ("x-a", true),
        ("x-b", false),
        ("x-c", false),
        ("x-d", false),
    ] {
        let removes = route.removes(&HeaderName::from_static(name));
        assert_eq!(removes, removed, "{name}");
    }
}

#[test]
fn replies_share_their_fields_where_the_route_changes_none() {
    let shared = |reply: Reply| match reply.headers {
        ReplyFields::Shared(fields) => fields,
        ReplyFields::Own(fields) => panic!("{fields:?}"),
    };
    let site = site(&[page("/", "")]);
    let (one, other) = (ask(&site, "GET", "/"), ask(&site, "GET", "/"));
    assert!(Arc::ptr_eq(&shared(one), &shared(other)));
}

#[test]
fn a_redirect_below_this_host_stays_there() {
    let text = "[[route]]\npath = \"/go\"\nredirect = { location = \"/{rest}\" }\n";
    let site = Site::of_routes(text, &limits());
    let reply = ask_at(&site, "example.org", "GET", "/go/evil.example/x");
    let (_, location) = &reply.headers[0];
    assert_eq!(location, "/evil.example/x");
}
