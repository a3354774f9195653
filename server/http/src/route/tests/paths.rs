//! Patterns of paths.

use super::*;
use crate::proxy::RequestRules;

#[test]
fn an_exact_path_comes_before_an_expression_and_that_before_a_prefix() {
    let mut routes = [
        page("/a/b.php", "prefix"),
        page("~ [.]php$", "expression"),
        page("= /a/b.php", "exact"),
        page("/", "root"),
    ];
    for _ in 0..2 {
        let site = site(&routes);
        for (path, expected) in [
            ("/a/b.php", "exact"),
            ("/a/c.php", "expression"),
            ("/a/b.php/c", "prefix"),
            ("/a", "root"),
        ] {
            assert_eq!(text(&ask(&site, "GET", path)), expected.as_bytes(), "{path}");
        }
        routes.reverse();
    }
}

#[test]
fn the_first_expression_of_the_file_that_matches_applies() {
    let two = [page("~ ^/user/", "user"), page("~ [0-9]$", "number")];
    let site_of = |routes: &[Route]| site(routes);
    assert_eq!(text(&ask(&site_of(&two), "GET", "/user/7")), b"user");
    let [user, number] = two;
    let reversed = site_of(&[number, user]);
    assert_eq!(text(&ask(&reversed, "GET", "/user/7")), b"number");
    assert_eq!(text(&ask(&reversed, "GET", "/user/x")), b"user");
    assert_eq!(ask(&reversed, "GET", "/x").status, 404);
}

#[test]
fn a_route_may_have_several_paths() {
    let route = Route {
        paths: ["/api", "= /health", "~ ^/v[0-9]+/"].map(Into::into).to_vec(),
        ..page("/", "several")
    };
    let site = site(&[route]);
    for path in ["/api", "/api/x", "/health", "/v2/x"] {
        assert_eq!(text(&ask(&site, "GET", path)), b"several", "{path}");
    }
    for path in ["/", "/apix", "/health/", "/v/x"] {
        assert_eq!(ask(&site, "GET", path).status, 404, "{path}");
    }
}

#[test]
fn a_route_without_a_prefix_has_the_whole_path_as_its_rest() {
    let redirect = |path: &str| {
        let location = "https://example.net{rest}".to_owned();
        let redirect = Redirect { status: 307, location };
        Route::new(path, Handler::Redirect(redirect))
    };
    let site = site(&[redirect("= /exact"), redirect("~ x$"), redirect("/prefix")]);
    for (path, expected) in [
        ("/exact", "https://example.net/exact"),
        ("/a/x", "https://example.net/a/x"),
        ("/prefix/b", "https://example.net/b"),
    ] {
        let location = HeaderValue::from_static(expected);
        assert_eq!(*ask(&site, "GET", path).headers, [(LOCATION, location)]);
    }
}

/// A path may match many prefixes that are nested in each other, with others in between that are no segments.
#[test]
fn the_longest_prefix_wins_among_nested_ones() {
    let prefixes = ["/", "/a", "/a/", "/a/b", "/a/b/c", "/a/b/d", "/a/bb", "/a-b", "/b"];
    let routes: Vec<Route> = prefixes.iter().map(|path| page(path, path)).collect();
    let site = site(&routes);
    for (path, expected) in [
        ("/", "/"),
        ("/a", "/a"),
        ("/a/", "/a/"),
        ("/a/x", "/a/"),
        ("/a/b", "/a/b"),
        ("/a/b/cc", "/a/b"),
        ("/a/b/c/", "/a/b/c"),
        ("/a/b/dx/y", "/a/b"),
        ("/a/bbb", "/a/"),
        ("/a-b/c", "/a-b"),
        ("/a-bc", "/"),
        ("/ab", "/"),
        ("/b/b", "/b"),
        ("/z", "/"),
    ] {
        assert_eq!(text(&ask(&site, "GET", path)), expected.as_bytes(), "{path}");
    }
}

#[test]
fn without_a_method_that_matches_the_shorter_prefixes_follow() {
    let put = |path: &str| Route { methods: vec!["PUT".to_owned()], ..page(path, "put") };
    let site = site(&[put("= /a/b"), put("~ b$"), put("/a/b"), page("/a", "a")]);
    assert_eq!(text(&ask(&site, "GET", "/a/b")), b"a");
    assert_eq!(text(&ask(&site, "PUT", "/a/b")), b"put");
}

#[test]
fn a_rewrite_has_what_the_groups_of_the_expression_matched() {
    let proxy = Proxy {
        rewrite: Some("/{capture:2}/{capture:1}".to_owned()),
        ..upstreams(&[([127, 0, 0, 1], 1).into()])
    };
    let site = site(&[Route::new("~ ^/([^/]+)/(.*)$", Handler::Proxy(proxy))]);
    for (path, expected) in [("/a%2Bb/c/d", "/c/d/a%2Bb"), ("/a/", "/a")] {
        let head = head("GET", path, &[]);
        let Routed::Origin(route) = site.route(&head) else {
            panic!("the route forwards requests");
        };
        let rewritten = RequestRules::rewrite(&**route, &head);
        assert_eq!(rewritten.unwrap().unwrap().forward(0), expected);
    }
}

#[test]
fn a_redirect_has_what_the_groups_matched_and_no_other_host() {
    let redirect = |path: &str, location: &str| {
        let redirect = Redirect { status: 308, location: location.to_owned() };
        Route::new(path, Handler::Redirect(redirect))
    };
    let site = site(&[
        redirect("~ ^/u/(.*)/(.*)$", "https://{capture:1}.example.com/{capture:2}{query}"),
        redirect("~ ^/v/(.*)$", "{capture:1}"),
    ]);
    for (path, expected) in [
        ("/u/a/b%2Bc?d=/", Some("https://a.example.com/b%2Bc?d=/")),
        ("/u/evil.org/x/", None),
        ("/u/evil.org:8/", None),
        ("/u/evil.org%23/", None),
        ("/u/x@evil.org/y", None),
        ("/v/evil.org", Some("/evil.org")),
    ] {
        let reply = ask(&site, "GET", path);
        let location = expected.map(|to| (LOCATION, HeaderValue::from_static(to)));
        match location {
            Some(location) => assert_eq!(*reply.headers, [location], "{path}"),
            None => assert_eq!(reply.status, 404, "{path}"),
        }
    }
}
