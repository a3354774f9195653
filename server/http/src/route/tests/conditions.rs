//! Conditions on fields and on the query.

use sluicegate_config::Config;

use super::*;

fn site_of(routes: &str) -> Arc<Site> {
    Site::of_routes(routes, &Config::embedded().limits)
}

fn ask_with(site: &Site, path: &str, fields: &[(&'static str, &'static str)]) -> Vec<u8> {
    match site.route(&head("GET", path, fields)) {
        Routed::Reply(reply) if reply.status == 200 => text(&reply).to_vec(),
        Routed::Reply(reply) => reply.status.to_string().into_bytes(),
        Routed::Origin(route) => panic!("left to the origin: {route:?}"),
    }
}

/// Checks with which body or status a site responds.
fn check(site: &Site, path: &str, fields: &[(&'static str, &'static str)], expected: &str) {
    let found = ask_with(site, path, fields);
    assert_eq!(found, expected.as_bytes(), "{path} {fields:?}");
}

#[test]
fn fields_must_all_match() {
    let site = site_of(
        r#"
        [[route]]
        path = "/"
        fixed = { body = "plain" }
        [[route]]
        path = "/"
        match_headers = "X-Beta"
        fixed = { body = "beta" }
        [[route]]
        path = "/"
        match_headers = ["x-beta", "x-version: 2", "cookie: ~ (^|; )group=[ab](;|$)"]
        fixed = { body = "all" }
        "#,
    );
    let beta = ("x-beta", "");
    let version = ("x-version", "2");
    let cookie = ("cookie", "id=1; group=a");
    for (fields, expected) in [
        (&[][..], "plain"),
        (&[version, cookie], "plain"),
        (&[beta], "beta"),
        (&[beta, cookie, ("x-version", "22")], "beta"),
        (&[beta, version, ("cookie", "group=c")], "beta"),
        (&[beta, version, cookie], "all"),
        (&[beta, ("x-version", "1"), version, cookie], "all"),
    ] {
        check(&site, "/", fields, expected);
    }
}

#[test]
fn fields_with_underscores_meet_conditions_on_hyphens_and_the_other_way_round() {
    let site = site_of(
        r#"
        [[route]]
        path = "/"
        fixed = { body = "plain" }
        [[route]]
        path = "/"
        match_headers = "x-group-a: 1"
        fixed = { status = 403 }
        [[route]]
        path = "/b/"
        match_headers = "x_group_b: ~ ^[12]$"
        fixed = { status = 403 }
        "#,
    );
    for (path, name, value, expected) in [
        ("/", "x-group-a", "1", "403"),
        ("/", "x_group_a", "1", "403"),
        ("/", "x-group_a", "1", "403"),
        ("/", "x_group_a", "2", "plain"),
        ("/", "xgroupa", "1", "plain"),
        ("/", "x_group_aa", "1", "plain"),
        ("/b/", "x-group-b", "2", "403"),
        ("/b/", "x_group_b", "2", "403"),
        ("/b/", "x-group-b", "3", "plain"),
    ] {
        check(&site, path, &[(name, value)], expected);
    }
}

#[test]
fn cookies_match_alike_on_one_line_and_on_several() {
    let site = site_of(
        r#"
        [[route]]
        path = "/"
        match_headers = "cookie: ~ a=1; b=2"
        fixed = { body = "both" }
        [[route]]
        path = "/"
        match_headers = "cookie"
        fixed = { body = "any" }
        "#,
    );
    let one = [("cookie", "a=1; b=2")];
    let two = [("cookie", "a=1"), ("cookie", "b=2")];
    assert_eq!(ask_with(&site, "/", &one), b"both");
    assert_eq!(ask_with(&site, "/", &two), b"both");
    assert_eq!(ask_with(&site, "/", &two[..1]), b"any");
    assert_eq!(ask_with(&site, "/", &[]), b"404");
}

#[test]
fn conditions_decide_between_routes_with_the_same_expression() {
    let site = site_of(
        r#"
        [[route]]
        path = "~ [.]php$"
        fixed = { body = "first" }
        [[route]]
        path = "~ x"
        match_query = ["a", "b"]
        fixed = { body = "other" }
        [[route]]
        path = "~ [.]php$"
        match_headers = "x-beta"
        fixed = { body = "beta" }
        "#,
    );
    assert_eq!(ask_with(&site, "/x.php?a&b", &[]), b"first");
    assert_eq!(ask_with(&site, "/x.php?a&b", &[("x-beta", "")]), b"beta");
    assert_eq!(ask_with(&site, "/x?a&b", &[]), b"other");
}

#[test]
fn parameters_must_all_match() {
    let site = site_of(
        r#"
        [[route]]
        path = "/"
        match_query = "v=a b"
        fixed = { body = "value" }
        [[route]]
        path = "/"
        match_query = ["v=~ ^[0-9]+$", "debug"]
        fixed = { body = "both" }
        "#,
    );
    for (path, expected) in [
        ("/", "404"),
        ("/?v=a", "404"),
        ("/?v=a+b", "value"),
        ("/?x&%76=a%20b", "value"),
        ("/?v=12", "404"),
        ("/?v=1x&debug", "404"),
        ("/?v=12&debug", "both"),
        ("/?debug=no&v=1", "both"),
    ] {
        check(&site, path, &[], expected);
    }
}

#[test]
fn a_route_whose_conditions_fail_does_not_make_a_404_a_405() {
    let site =
        site_of("[[route]]\npath = \"/\"\nmethod = \"PUT\"\nmatch_query = \"x\"\nfixed = {}\n");
    assert_eq!(ask_with(&site, "/", &[]), b"404");
    assert_eq!(ask_with(&site, "/?x", &[]), b"405");
}
