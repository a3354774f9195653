use super::*;
use crate::exchange::test_front::head;
use crate::target::Query;
use sluicegate_config::Config;

fn explain_text(routes: &str, head: &RequestHead) -> Explanation {
    let listener = "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n";
    let registry = sluicegate_cc::Registry::builtin();
    let text = format!("{listener}{routes}");
    let config = Config::from_toml("test.toml", &text, &registry).unwrap();
    explain(&config.routes, &config.limits, head, None).unwrap()
}

const ROUTES: &str = r#"
    [[route]]
    path = "/"
    fixed = { status = 204 }
    [[route]]
    path = "/"
    host = "*.example.net"
    fixed = {}
    [[route]]
    path = ["= /x", "/api/"]
    fixed = {}
    [[route]]
    path = "/api"
    match_headers = "x-beta"
    fixed = {}
    [[route]]
    path = "/api"
    match_query = "beta"
    fixed = {}
    [[route]]
    path = "/api"
    method = "PUT"
    fixed = {}
    [[route]]
    path = "/api"
    redirect = { location = "/v2{path}" }
"#;

#[test]
fn each_route_has_the_first_reason_that_holds() {
    let explanation = explain_text(ROUTES, &head("GET", "/api", &[]));
    assert_eq!(explanation.response, "status 308, location: /v2/api");
    assert_eq!(
        explanation.verdicts,
        [
            RouteVerdict::Outranked(RankingRule::LongestPrefix),
            RouteVerdict::Host,
            RouteVerdict::Path,
            RouteVerdict::Fields,
            RouteVerdict::Query,
            RouteVerdict::Method,
            RouteVerdict::Responds,
        ]
    );
}

#[test]
fn a_fallback_is_named_beside_the_files() {
    let route = "[[route]]\npath = \"/app\"\nfiles = { root = \"/\" }\n";
    for (method, fallback, expected) in [
        (
            "GET",
            "proxy = { upstreams = \"a:1\", strip_prefix = true }",
            "files in /, or proxy to a:1, which receives /x by `strip_prefix` where there is none",
        ),
        (
            "HEAD",
            "redirect = \"/to{path}\"",
            "files in /, or status 308, location: /to/app/x where there is none",
        ),
        ("POST", "proxy = { upstreams = \"a:1\" }", "proxy to a:1 (files are for GET and HEAD)"),
        ("DELETE", "fixed = { status = 405 }", "status 405 (files are for GET and HEAD)"),
    ] {
        let text = format!("{route}{fallback}\n");
        let explanation = explain_text(&text, &head(method, "/app/x", &[]));
        assert_eq!(explanation.response, expected);
    }
}

#[test]
fn a_route_that_is_behind_says_by_which_rule() {
    let route = |keys: &str| format!("[[route]]\nfixed = {{}}\n{keys}\n");
    let (get, host) = ("method = \"GET\"", "host = \"example.org\"");
    for (first, behind, rule) in [
        (
            "path = \"/\"\npriority = 1".to_owned(),
            format!("path = \"= /a/b.c\"\n{host}"),
            RankingRule::Priority,
        ),
        (format!("path = \"/\"\n{host}"), "path = \"= /a/b.c\"".to_owned(), RankingRule::Host),
        (
            format!("path = \"/\"\n{host}"),
            "path = \"/\"\nhost = \"*.org\"".to_owned(),
            RankingRule::Host,
        ),
        ("path = \"= /a/b.c\"".to_owned(), "path = \"~ c$\"".to_owned(), RankingRule::ExactPath),
        (
            "path = \"~ c$\"".to_owned(),
            format!("path = \"/a/\"\n{get}"),
            RankingRule::RegexBeforePrefix,
        ),
        ("path = \"/a/\"".to_owned(), format!("path = \"/a\"\n{get}"), RankingRule::LongestPrefix),
        (
            "path = \"/a\"\nmatch_query = \"q\"".to_owned(),
            format!("path = \"/a\"\n{get}"),
            RankingRule::Conditions,
        ),
        (format!("path = \"/a\"\n{get}"), "path = \"/a\"".to_owned(), RankingRule::Method),
    ] {
        let request = RequestHead { query: Some(Query::new("q")), ..head("GET", "/a/b.c", &[]) };
        let (first, behind) = (route(&first), route(&behind));
        let explain = |text: String| explain_text(&text, &request).verdicts;
        let verdicts = [RouteVerdict::Responds, RouteVerdict::Outranked(rule)];
        assert_eq!(explain(format!("{first}{behind}")), verdicts);
        let verdicts = [RouteVerdict::Outranked(rule), RouteVerdict::Responds];
        assert_eq!(explain(format!("{behind}{first}")), verdicts);
    }
    let two = format!("{}{}", route("path = \"~ c$\""), route("path = \"~ b\""));
    let explanation = explain_text(&two, &head("GET", "/a/b.c", &[]));
    let verdicts = [RouteVerdict::Responds, RouteVerdict::Outranked(RankingRule::FirstRegex)];
    assert_eq!(explanation.verdicts, verdicts);
}

#[test]
fn without_a_route_the_response_is_the_server_s_own() {
    let only_put = "[[route]]\npath = \"/\"\nmethod = \"PUT\"\nfixed = {}\n";
    let explanation = explain_text(only_put, &head("GET", "/", &[]));
    assert_eq!(explanation.response, "status 405, allow: PUT");
    assert_eq!(explanation.verdicts, [RouteVerdict::Method]);
}

#[test]
fn an_encoded_slash_is_refused_with_the_key_that_allows_it() {
    let route = "[[route]]\npath = \"/\"\nproxy = { upstreams = \"a:1\" }\n";
    let path = head("GET", "/group%2Fproject", &[]);
    let refused = explain_text(route, &path).response;
    assert!(refused.starts_with("status 400") && refused.contains("allow_encoded_slashes"));
    let allowed = format!("{route}allow_encoded_slashes = true\n");
    assert_eq!(explain_text(&allowed, &path).response, "proxy to a:1");
}

#[test]
fn a_proxy_has_its_pool_and_the_path_that_upstreams_receive() {
    for (keys, path, expected) in [
        ("", "/api/x", "proxy to a:1"),
        ("strip_prefix = true", "/api/x", "proxy to a:1, which receives /x by `strip_prefix`"),
        ("strip_prefix = true", "/api", "proxy to a:1, which receives / by `strip_prefix`"),
        ("rewrite = \"/v2{rest}\"", "/api/x", "proxy to a:1, which receives /v2/x by `rewrite`"),
    ] {
        let route = "[[route]]\npath = \"/api\"\n[route.proxy]\nupstreams = \"a:1\"\n";
        let explanation = explain_text(&format!("{route}{keys}"), &head("GET", path, &[]));
        assert_eq!(explanation.response, expected);
    }
}
