mod access;
mod compressed;
mod conditions;
mod error_pages;
mod fields;
mod methods;
mod paths;
mod rate_limits;

use std::fs;

use bytes::Bytes;
use http::header::{ALLOW, LOCATION};
use http::{HeaderName, HeaderValue};
use sluicegate_config::{
    Handler, HeaderEdits, HostPattern, Proxy, Redirect, ResponseHeaders, Route, RouteSettings,
};

use super::*;
use crate::exchange::test_front::{head, peer};
use crate::exchange::{Body, Fields, Generator};
use crate::proxy::tests::proxy as upstreams;

fn limits() -> Limits {
    sluicegate_config::Config::embedded().limits
}

fn page(path: &str, text: &str) -> Route {
    let handler = Handler::Fixed(sluicegate_config::Fixed {
        status: 200,
        content_type: "text/html".to_owned(),
        body: Some(text.to_owned()),
        body_file: None,
    });
    Route::new(path, handler)
}

fn generator(path: &str) -> Route {
    Route::new(path, Handler::Generate(sluicegate_config::Generate { max_size: 1024 }))
}

fn ask_at(site: &Site, authority: &str, method: &str, path: &str) -> Reply {
    let routed =
        site.route(&RequestHead { authority: authority.to_owned(), ..head(method, path, &[]) });
    match routed {
        Routed::Reply(reply) => reply,
        Routed::Origin(route) => panic!("left to the origin: {route:?}"),
    }
}

fn ask(site: &Site, method: &str, path: &str) -> Reply {
    ask_at(site, "example.org", method, path)
}

fn site(routes: &[Route]) -> Site {
    Site::compile(routes, &limits()).unwrap()
}

#[test]
fn the_longest_prefix_wins_in_any_order_of_the_file() {
    let mut routes = [page("/", "root"), page("/a", "a"), page("/a/b", "ab")];
    for _ in 0..2 {
        let site = site(&routes);
        for (path, text) in [
            ("/", "root"),
            ("/x", "root"),
            ("/a", "a"),
            ("/a/", "a"),
            ("/a/b/c", "ab"),
            ("/a/bc", "a"),
            ("/ab", "root"),
        ] {
            let body = Body::Bytes(Bytes::from_static(text.as_bytes()));
            assert_eq!(ask(&site, "GET", path).body, body, "{path}");
        }
        routes.reverse();
    }
}

#[test]
fn a_generator_reads_the_size_behind_its_prefix() {
    for prefix in ["/bytes", "/bytes/"] {
        let site = site(&[generator(prefix)]);
        for (path, size) in [("/bytes/0", 0), ("/bytes/7", 7), ("/bytes/1KiB", 1024)] {
            assert_eq!(
                ask(&site, "GET", path).body,
                Body::Generated(Generator::new(size)),
                "{path}"
            );
        }
        for path in ["/bytes/", "/bytes/1025", "/bytes/-1", "/bytes/1/2"] {
            assert_eq!(ask(&site, "GET", path).status, 404, "{path}");
        }
    }
}

#[test]
fn a_file_is_read_when_compiled() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("page.html");
    let handler = Handler::Fixed(sluicegate_config::Fixed {
        status: 200,
        content_type: "text/html".to_owned(),
        body: None,
        body_file: Some(file.clone()),
    });
    let route = Route::new("/", handler);
    let refusal = Site::compile(std::slice::from_ref(&route), &limits()).unwrap_err().to_string();
    assert!(refusal.contains("route /: cannot read body_file"), "{refusal}");
    assert!(refusal.contains("page.html") && !refusal.contains('\n'), "{refusal}");
    fs::write(&file, "hello").unwrap();
    let site = Site::compile(&[route], &limits()).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(ask(&site, "GET", "/").body, Body::Bytes(Bytes::from_static(b"hello")));
}

fn text(reply: &Reply) -> &[u8] {
    match &reply.body {
        Body::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_host_decides_before_the_path() {
    let on = |hosts: &[HostPattern], path: &str, text: &str| Route {
        own_hosts: hosts.to_vec(),
        ..page(path, text)
    };
    let exact = |host: &str| HostPattern::Exact(host.to_owned());
    let suffix = |host: &str| HostPattern::Suffix(host.to_owned());
    let site = site(&[
        on(&[], "/long/path", "any long"),
        on(&[], "/", "any"),
        on(&[suffix(".example.org")], "/", "wild"),
        on(&[suffix(".b.example.org"), exact("[::1]")], "/", "wilder"),
        on(&[exact("a.example.org")], "/", "exact"),
        on(&[exact("a.example.org")], "/x", "exact x"),
    ]);
    for (authority, path, expected) in [
        ("a.example.org", "/", "exact"),
        ("A.Example.ORG:443", "/x/y", "exact x"),
        ("c.example.org", "/long/path", "wild"),
        ("a.b.example.org", "/", "wilder"),
        ("a.example.org.:443", "/x", "exact x"),
        ("[::1]:8443", "/", "wilder"),
        ("[::1]", "/", "wilder"),
        ("example.org", "/", "any"),
        ("badexample.org", "/long/path/2", "any long"),
    ] {
        let reply = ask_at(&site, authority, "GET", path);
        assert_eq!(text(&reply), expected.as_bytes(), "{authority}{path}");
    }
}

#[test]
fn a_redirect_keeps_path_and_query_and_leads_to_no_other_host() {
    let to = |path: &str, location: &str| {
        let redirect = Redirect { status: 301, location: location.to_owned() };
        Route::new(path, Handler::Redirect(redirect))
    };
    let site = site(&[
        to("/all", "https://{host}:8443{path}{query}"),
        to("/old/", "/new/{rest}{query}#{x}"),
        to("/open", "{rest}"),
        to("/open/", "{rest}"),
        to("/slash/", "/{rest}"),
        to("/host", "https://{host}{rest}"),
        to("/host/below/", "https://{host}{rest}"),
    ]);
    for (path, expected) in [
        ("/all/a%20b?c=d", "https://example.org:8443/all/a%20b?c=d"),
        ("/all", "https://example.org:8443/all"),
        ("/old/x/y?z", "/new/x/y?z#{x}"),
        ("/open//evil.example/x", "/evil.example/x"),
        ("/open", "/"),
        ("/open/https://evil.example/x", "/https:/evil.example/x"),
        ("/slash//evil.example", "/evil.example"),
        ("/host/x", "https://example.org/x"),
        ("/host/below/.evil.example/x", "https://example.org/.evil.example/x"),
        ("/host/below/@evil.example/x", "https://example.org/@evil.example/x"),
    ] {
        let reply = ask_at(&site, "example.org:443", "POST", path);
        assert_eq!(reply.status, 301);
        let location = HeaderValue::from_static(expected);
        assert_eq!(*reply.headers, [(LOCATION, location)], "{path}");
    }
}

#[test]
fn fields_are_removed_set_and_added_in_this_order() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let edits = HeaderEdits {
        remove: vec!["x-gone".to_owned(), "x-again".to_owned()],
        set: vec![pair("x-set", "new")],
        add: vec![pair("x-again", "1"), pair("x-set", "more")],
    };
    let site = site(&[Route {
        own: RouteSettings {
            request_headers: edits.clone(),
            response_headers: vec![ResponseHeaders { edits, ..ResponseHeaders::default() }],
            ..RouteSettings::default()
        },
        ..page("/", "p")
    }]);
    let shown = |fields: &Fields| {
        let lines = fields.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap()));
        lines.collect::<Vec<_>>().join(", ")
    };
    let field = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
    let fields = vec![
        field("x-gone", "1"),
        field("x-set", "old"),
        field("x-kept", "k"),
        field("x-again", "0"),
        field("x-set", "older"),
    ];
    let mut head = RequestHead { headers: fields, ..head("GET", "/", &[]) };
    site.any_route().unwrap().edit_request(&mut head, &peer(false), None);
    assert_eq!(shown(&head.headers), "x-kept: k, x-set: new, x-again: 1, x-set: more");
    let reply = ask(&site, "GET", "/");
    assert_eq!(
        shown(&reply.headers),
        "content-type: text/html, x-set: new, x-again: 1, x-set: more"
    );
}

#[test]
fn every_spelling_of_a_path_finds_the_same_route() {
    let site = site(&[page("/", "open"), page("/private/", "refused")]);
    let refused = Body::Bytes(Bytes::from_static(b"refused"));
    for path in [
        "/private/x",
        "//private/x",
        "/%70rivate/x",
        "/private//x",
        "/x/../private/",
        "/x/%2E./private/x",
        "/./private/x",
    ] {
        assert_eq!(ask(&site, "GET", path).body, refused, "{path}");
    }
}

#[test]
fn a_route_is_written_in_the_canonical_spelling() {
    let compile = |path: &str| Site::compile(&[page(path, "x")], &limits());
    for path in ["/", "/a", "/a/", "/.well-known/", "/a%20b", "/a;b", "/x", "= /a", "= /", "~ ^/a"]
    {
        assert!(compile(path).is_ok(), "{path}");
    }
    for (path, advice) in [
        ("//", "`path = \"/\"`"),
        ("/.", "`path = \"/\"`"),
        ("= /a//", "`path = \"= /a/\"`"),
        ("/%7euser/", "`path = \"/~user/\"`"),
        ("/a/../xx", "`path = \"/xx\"`"),
        ("/a b", "`path = \"/a%20b\"`"),
        ("/a%2fb", "`path = \"/a%2Fb\"`"),
        ("/a%2F..", "dot segment"),
        ("/a%2", "percent sign"),
    ] {
        let error = compile(path).unwrap_err().to_string();
        assert!(error.contains(advice), "{error}");
    }
}

/// A prefix that is cut from the path ends where a segment ends: what would follow `/app` in `/app../x` climbs upstream.
#[test]
fn stripped_prefix_ends_with_a_segment() {
    let proxy = Proxy { strip_prefix: true, ..upstreams(&[([127, 0, 0, 1], 1).into()]) };
    let site = site(&[Route::new("/app", Handler::Proxy(proxy))]);
    for path in ["/app", "/app/", "/app/x", "/app/..x"] {
        let routed = site.route(&head("GET", path, &[]));
        assert!(matches!(routed, Routed::Origin(_)), "{path}: {routed:?}");
    }
    for path in ["/appadmin/x", "/app./admin", "/app../admin"] {
        assert_eq!(ask_at(&site, "example.org", "GET", path).status, 404, "{path}");
    }
}

/// Servers that drop parameters read other paths; the manual says so at `path` of `[[route]]`.
#[test]
fn path_parameters_belong_to_their_segment() {
    let site = site(&[page("/", "all"), page("/private/", "no")]);
    for (path, text) in [("/private/y;x", "no"), ("/private;x/y", "all"), ("/private%3Bx/y", "all")]
    {
        let body = Body::Bytes(Bytes::from_static(text.as_bytes()));
        assert_eq!(ask(&site, "GET", path).body, body, "{path}");
    }
}

#[test]
fn recompiled_site_has_the_pools_that_did_not_change() {
    let route = |path: &str, port: u16| {
        let proxy = upstreams(&[([127, 0, 0, 1], port).into()]);
        Route::new(path, Handler::Proxy(proxy))
    };
    let first = site(&[route("/a", 1), route("/b", 1)]);
    let again = first.recompile(&[route("/c", 1)], &limits(), Identification::off()).unwrap();
    assert!(same_pools(&first, &again));
    let other = first.recompile(&[route("/a", 2)], &limits(), Identification::off()).unwrap();
    assert!(!same_pools(&first, &other));
    assert!(!same_pools(&first, &site(&[route("/a", 1)])));
}

fn same_pools(one: &Site, other: &Site) -> bool {
    let pools = |site: &Site| site.pools().iter().map(Arc::as_ptr).collect::<Vec<_>>();
    pools(one) == pools(other)
}
