//! Methods of requests and of routes.

use super::*;

#[test]
fn other_paths_and_methods_are_refused() {
    let site = site(&[generator("/a/")]);
    assert_eq!(ask(&site, "GET", "/b").status, 404);
    let refused = ask(&site, "POST", "/a/1");
    assert_eq!(refused.status, 405);
    assert!(refused.headers.contains(&(ALLOW, HeaderValue::from_static("GET, HEAD"))));
    assert_eq!(ask(&site, "get", "/a/1").status, 405);
    let of_the_server = ask(&site, "OPTIONS", "*");
    assert_eq!(of_the_server.status, 204);
    assert!(matches!(of_the_server.body, Body::Empty));
}

#[test]
fn the_method_decides_last_and_405_lists_the_others() {
    let only = |methods: &[&str], text: &str| Route {
        methods: methods.iter().map(|m| (*m).to_owned()).collect(),
        ..page("/a", text)
    };
    let site = site(&[
        only(&["GET"], "get"),
        only(&["HEAD", "PUT"], "put"),
        Route { paths: vec!["/".into()], ..only(&["GET", "PATCH"], "root") },
    ]);
    assert_eq!(text(&ask(&site, "GET", "/a")), b"get");
    let refused = ask(&site, "DELETE", "/a/b");
    assert_eq!(refused.status, 405);
    assert_eq!(*refused.headers, [(ALLOW, HeaderValue::from_static("GET, HEAD, PUT, PATCH"))]);
}

#[test]
fn request_whose_method_does_not_match_gets_the_next_route_that_matches() {
    let route = |host: &[HostPattern], path: &str, methods: &[&str], text: &str| Route {
        own_hosts: host.to_vec(),
        methods: methods.iter().map(|m| (*m).to_owned()).collect(),
        ..page(path, text)
    };
    let host = [HostPattern::Exact("example.org".to_owned())];
    let site = site(&[
        route(&host, "/upload/", &["POST", "PUT"], "upload"),
        route(&host, "/", &["GET", "POST"], "app"),
        route(&[], "/", &["DELETE"], "any host"),
    ]);
    for (method, path, expected) in [
        ("POST", "/upload/x", "upload"),
        ("GET", "/upload/x", "app"),
        ("POST", "/x", "app"),
        ("DELETE", "/upload/x", "any host"),
    ] {
        let reply = ask(&site, method, path);
        assert_eq!(text(&reply), expected.as_bytes(), "{method} {path}");
    }
    let refused = ask(&site, "PATCH", "/upload/x");
    let allow = HeaderValue::from_static("POST, PUT, GET, DELETE");
    assert_eq!((refused.status, refused.headers), (405, vec![(ALLOW, allow)].into()));
}

#[test]
fn fixed_response_answers_every_method() {
    let site = site(&[page("/", "down")]);
    for method in ["GET", "HEAD", "POST", "OPTIONS", "DELETE", "BREW"] {
        let reply = ask(&site, method, "/x");
        // The front sends only the length to HEAD.
        assert_eq!((reply.status, text(&reply)), (200, &b"down"[..]), "{method}");
    }
}

#[test]
fn another_path_of_the_same_length_is_not_in_the_way() {
    let get = |route: Route| Route { methods: vec!["GET".to_owned()], ..route };
    let site = site(&[get(page("/ab", "get")), get(page("/cd", "other")), page("/ab", "any")]);
    assert_eq!(text(&ask(&site, "GET", "/ab")), b"get");
    assert_eq!(text(&ask(&site, "HEAD", "/ab")), b"any");
}
