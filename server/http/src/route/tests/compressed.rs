//! Contents that are known in advance, compressed.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, VARY};

use super::*;

/// Returns the value of a field.
fn value(reply: &Reply, name: &HeaderName) -> Option<String> {
    let mut lines = reply.headers.iter().filter(|(known, _)| known == name);
    let value = lines.next().map(|(_, value)| value.to_str().unwrap());
    assert_eq!(lines.next(), None, "{name} once");
    value.map(str::to_owned)
}

/// Returns the response of a site with these routes to a request for a path whose client accepts these encodings.
fn ask(routes: &str, method: &str, path: &str, accepted: &'static str) -> Reply {
    let site = Site::of_routes(&format!("[compress]\nenabled = true\n{routes}"), &limits());
    let fields = [("accept-encoding", accepted)];
    match site.route(&head(method, path, &fields)) {
        Routed::Reply(reply) => reply,
        Routed::Origin(route) => panic!("left to the origin: {route:?}"),
    }
}

fn page(keys: &str, length: usize) -> String {
    let body = "a".repeat(length);
    format!("[[route]]\npath = \"/\"\nfixed = {{ body = \"{body}\" }}\n{keys}\n")
}

#[test]
fn a_fixed_body_is_compressed_for_clients_that_prefer_it_and_head_says_the_same() {
    for (accepted, encoding) in
        [("gzip", Some("gzip")), ("br, zstd;q=0.5", Some("br")), ("identity", None)]
    {
        let [get, of_head] =
            ["GET", "HEAD"].map(|method| ask(&page("", 2000), method, "/", accepted));
        assert_eq!(value(&get, &CONTENT_ENCODING).as_deref(), encoding);
        assert_eq!(value(&get, &VARY).as_deref(), Some("accept-encoding"));
        assert!(value(&get, &CONTENT_TYPE).is_some());
        assert_eq!(get.body.len() < 100, encoding.is_some(), "{accepted}");
        assert_eq!(get, of_head);
    }
}

#[test]
fn what_is_short_or_is_encoded_already_or_must_not_change_is_sent_as_it_is() {
    let set = |line: &str| page(&format!("response_headers.set = {{ {line} }}"), 2000);
    for (routes, encoding) in [
        (page("", 1000), None),
        (page("compress = false", 2000), None),
        (set("content-encoding = \"gzip\""), Some("gzip")),
        (set("cache-control = \"No-Transform\""), None),
        (page("response_headers.remove = [\"Content-Encoding\"]", 2000), None),
    ] {
        let reply = ask(&routes, "GET", "/", "zstd");
        assert_eq!(value(&reply, &CONTENT_ENCODING).as_deref(), encoding);
        assert_eq!(value(&reply, &VARY), None);
        assert!(reply.body.len() >= 1000);
    }
}

#[test]
fn a_route_that_replaces_vary_still_names_the_encodings() {
    let routes = page("response_headers.set = { vary = \"origin\" }", 2000);
    let reply = ask(&routes, "GET", "/", "zstd");
    let lines = reply.headers.iter().filter(|(name, _)| name == VARY);
    let lines: Vec<_> = lines.map(|(_, value)| value.to_str().unwrap()).collect();
    assert_eq!(lines, ["origin", "accept-encoding"]);
}

#[test]
fn an_error_page_is_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("404.html");
    fs::write(&file, "<p>gone\n".repeat(300)).unwrap();
    let pages = format!("error_pages = {{ 404 = \"{}\" }}", file.display());
    let routes = format!("[[route]]\npath = \"/bytes/\"\ngenerate = {{}}\n{pages}\n");
    let reply = ask(&routes, "GET", "/bytes/many", "gzip");
    assert_eq!(reply.status, 404);
    assert_eq!(value(&reply, &CONTENT_ENCODING).as_deref(), Some("gzip"));
    assert_eq!(value(&reply, &VARY).as_deref(), Some("accept-encoding"));
    assert!(reply.body.len() < 200);

    let site = Site::of_routes(&format!("[compress]\nenabled = true\n{routes}"), &limits());
    let mut early = Reply::plain(404, "404 not found\n");
    site.any_route().unwrap().error_pages().apply(&mut early);
    assert_eq!(value(&early, &CONTENT_ENCODING), None);
    assert_eq!(value(&early, &VARY).as_deref(), Some("accept-encoding"));
}

#[test]
fn responses_whose_encoding_a_route_changes_are_not_compressed() {
    for (edits, compresses) in [
        ("set = { x-a = \"b\" }", true),
        ("remove = [\"content-encoding\"]", false),
        ("set = { content-encoding = \"gzip\" }", false),
        ("add = { cache-control = \"public, NO-TRANSFORM\" }", false),
    ] {
        let routes = format!(
            "[compress]\nenabled = true\n[[route]]\npath = \"/\"\nproxy = {{ upstreams = \"127.0.0.1:1\" }}\n\
             response_headers.{edits}\n"
        );
        let site = Site::of_routes(&routes, &limits());
        let route = site.any_route().unwrap();
        assert_eq!(route.compression().is_some(), compresses, "{edits}");
    }
}
