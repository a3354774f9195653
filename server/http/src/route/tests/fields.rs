//! Tests what a route changes in fields, and what a proxy learns of its route.

use http::{HeaderName, HeaderValue};

use super::*;
use crate::exchange::ReplyFields;
use crate::path::CanonicalPath;
use crate::proxy::RequestRules;

/// Returns the names that are left of `x-a` and `x-b` in a request to a route with these edits.
fn left(edits: &str) -> Vec<String> {
    let text = format!(
        "[[route]]\npath = \"/\"\nfixed = {{ body = \"\" }}\n[route.request_headers]\n{edits}\n"
    );
    let site = Site::of_routes(&text, &limits());
    let line = |name| (HeaderName::from_static(name), HeaderValue::from_static("1"));
    let mut head = RequestHead { headers: vec![line("x-a"), line("x-b")], ..head("GET", "/", &[]) };
    site.any_route().unwrap().edit_request(&mut head, &peer(false), None);
    let lines = head.headers.iter();
    lines.map(|(name, value)| format!("{name}={}", value.to_str().unwrap())).collect()
}

#[test]
fn fields_are_only_removed_or_only_set() {
    assert_eq!(left("remove = [\"x-a\"]"), ["x-b=1"]);
    assert_eq!(left("set = { x-a = \"2\" }"), ["x-b=1", "x-a=2"]);
    assert_eq!(left("add = { x-a = \"2\" }"), ["x-a=1", "x-b=1", "x-a=2"]);
}

#[test]
fn fields_that_are_set_or_removed_are_so_with_underscores_too() {
    let text = "[[route]]\npath = \"/\"\nfixed = {}\n[route.request_headers]\n\
                set = { x-client-subject = \"{client_subject}\" }\nremove = [\"x_user\"]\n";
    let site = Site::of_routes(text, &limits());
    let names =
        ["x-client-subject", "x_client_subject", "x_client-subject", "x-user", "x_user", "x-users"];
    let line = |name| (HeaderName::from_static(name), HeaderValue::from_static("1"));
    let mut head = RequestHead { headers: names.map(line).to_vec(), ..head("GET", "/", &[]) };
    let route = site.any_route().unwrap();
    route.edit_request(&mut head, &peer(false), None);
    assert_eq!(head.headers, [line("x-users")]);
    let replaced = route.replaced();
    assert!(names[..5].iter().all(|name| replaced.contains(&HeaderName::from_static(name))));
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
    for (name, removed) in [("x-a", true), ("x-b", false), ("x-c", false), ("x-d", false)] {
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

/// Returns the value of `x-a` in a request to a route that sets it, after a client has sent it as `spoofed`.
fn set_to(value: &str, path: &str, lines: &[(&'static str, &str)]) -> Option<String> {
    let text = format!(
        "[[route]]\npath = '~ ^/(.)'\nfixed = {{}}\n[route.request_headers]\nset = {{ x-a = '{value}' }}\n"
    );
    let site = Site::of_routes(&text, &limits());
    let lines = [&[("x-a", "spoofed")], lines].concat();
    let mut head = head("GET", path, &lines);
    let Found::Route(route) = site.table.find(&head) else {
        panic!("the route matches");
    };
    route.edit_request(&mut head, &peer(false), None);
    let mut values = head.headers.iter().filter(|(name, _)| name == "x-a");
    let value = values.next().map(|(_, value)| value.to_str().unwrap().to_owned());
    assert_eq!(values.next(), None);
    value
}

#[test]
fn placeholders_of_a_field_stand_for_values_of_the_request() {
    let lines = [("x-b", "1"), ("cookie", "a=1"), ("cookie", "id=7"), ("x-b", "2")];
    for (value, expected) in [
        ("{method} {host}{path}{query}", "GET example.org/p%2Bq?v=a%20b&w"),
        ("{rest}", "/p%2Bq"),
        ("{scheme} {client} {client_port} {listener}", "https 192.0.2.7 50000 main"),
        ("{header:X-B}, {cookie:id}, {query:v}", "1, 2, 7, a%20b"),
        ("{header:cookie}", "a=1; id=7"),
        ("<{capture:1}>", "<p>"),
        (r#"{"a":{"b":1}}"#, r#"{"a":{"b":1}}"#),
        ("{{host}", "{host}"),
    ] {
        let found = set_to(value, "/p%2Bq?v=a%20b&w", &lines);
        assert_eq!(found.as_deref(), Some(expected), "{value}");
    }
}

#[test]
fn a_field_whose_value_is_empty_for_a_request_is_not_sent() {
    for value in [
        "{client_subject}",
        "{client_fingerprint}",
        "{cookie:id}",
        "{header:x-none}",
        "{query:v}",
        "{query} ",
    ] {
        assert_eq!(set_to(value.trim(), "/x", &[("cookie", "ids=1")]), None, "{value}");
    }
    assert_eq!(set_to("", "/x", &[]).as_deref(), Some(""), "as configured");
}

#[test]
fn fields_for_files_are_not_in_the_reply_in_place_of_a_missing_one() {
    for (handlers, expected) in [
        ("files = { root = \"/srv\" }\nfixed = { status = 404 }", 0),
        ("fixed = { status = 404 }", 1),
    ] {
        let text = format!(
            "[[route]]\npath = \"/\"\n{handlers}\n[route.response_headers]\nset = {{ cache-control = \"max-age=31536000\" }}\n"
        );
        let site = Site::of_routes(&text, &limits());
        let mut fields = Vec::new();
        site.any_route().unwrap().edit_response(404, &mut fields, None);
        assert_eq!(fields.len(), expected, "{handlers}");
    }
}

#[test]
fn fields_of_a_response_have_values_of_its_request() {
    let text = "[[route]]\npath = \"/\"\nfixed = {}\n[route.response_headers]\nset = { x-a = \"{host}{path}\", x-b = \"b\" }\n\
                [[route]]\npath = \"/app\"\nproxy = { upstreams = \"app:80\" }\n[route.response_headers]\n\
                remove = \"x-c\"\nadd = { x-a = \"{header:x-id}\" }\n";
    let site = Site::of_routes(text, &limits());
    let line = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
    let reply = ask(&site, "GET", "/x");
    assert!(reply.headers.contains(&line("x-a", "example.org/x")));
    assert!(reply.headers.contains(&line("x-b", "b")));

    let head = head("GET", "/app", &[("x-id", "7")]);
    let Routed::Origin(route) = site.route(&head) else {
        panic!("the route forwards requests");
    };
    let mut fields = vec![line("x-c", "1")];
    route.edit_response(200, &mut fields, route.fill_response(&head));
    assert_eq!(fields, [line("x-a", "7")]);
}
