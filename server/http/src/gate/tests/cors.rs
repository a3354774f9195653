//! Preflights of browsers, fields for scripts of other origins, and redirects of a file.

use super::*;

const APP: &str = "https://app.example.com";

const ROUTES: &str = "[[site]]\nname = \"api\"\n\
     [site.cors]\norigins = [\"https://app.example.com\", \"https://*.example.org\"]\nmethods = [\"GET\", \"PUT\"]\n\
     headers = [\"authorization\", \"x-a\"]\nexpose = \"etag\"\ncredentials = true\nmax_age = \"10m\"\n\
     [[route]]\npath = \"/\"\nsite = \"api\"\nmethod = [\"GET\", \"PUT\"]\nproxy = { upstreams = \"a:1\" }\n\
     [[route]]\npath = \"~ [.]json$\"\nsite = \"api\"\nfixed = { body = \"{}\" }\n\
     [[route]]\npath = \"/own\"\nmethod = \"OPTIONS\"\nfixed = { status = 200 }\n\
     [[route]]\npath = \"/denied\"\nsite = \"api\"\ndeny = \"all\"\nfixed = {}\n\
     [[route]]\npath = \"/any\"\ncors = { origins = \"*\" }\nfixed = {}\n\
     [[route]]\npath = \"/off\"\nsite = \"api\"\ncors = \"off\"\nfixed = {}\n";

fn reply(fixture: &mut Fixture, head: &RequestHead) -> Reply {
    match fixture.decide(head, &peer(false)) {
        Decision::Discard(reply, _) => reply,
        Decision::Refuse(refusal) => refusal.reply,
        other => panic!("{other:?}"),
    }
}

fn values(reply: &Reply, name: &str) -> Vec<String> {
    let lines = reply.headers.iter().filter(|(known, _)| known == name);
    lines.map(|(_, value)| value.to_str().unwrap().to_owned()).collect()
}

fn value(reply: &Reply, name: &str) -> Option<String> {
    let [value] = &values(reply, name)[..] else {
        return None;
    };
    Some(value.clone())
}

/// Returns a preflight for a request with this method.
fn preflight(path: &str, origin: &str, method: &str) -> RequestHead {
    head("OPTIONS", path, &[("origin", origin), ("access-control-request-method", method)])
}

#[test]
fn a_preflight_gets_the_rules_of_the_route_of_its_request() {
    let mut fixture = Fixture::new(ROUTES);
    for path in ["/x", "/x.json"] {
        for origin in [APP, "https://a.b.example.org"] {
            let reply = reply(&mut fixture, &preflight(path, origin, "PUT"));
            assert_eq!((reply.status, &reply.body), (204, &Body::Empty), "{path}");
            for (name, expected) in [
                ("access-control-allow-origin", origin),
                ("access-control-allow-methods", "GET, PUT"),
                ("access-control-allow-headers", "authorization, x-a"),
                ("access-control-allow-credentials", "true"),
                ("access-control-max-age", "600"),
                ("vary", "Origin"),
            ] {
                assert_eq!(value(&reply, name).as_deref(), Some(expected), "{path} {name}");
            }
        }
    }
    let other = reply(&mut fixture, &preflight("/x", "https://example.org", "PUT"));
    assert_eq!((other.status, other.headers.len()), (204, 1));
    assert_eq!(value(&other, "vary").as_deref(), Some("Origin"));
}

#[test]
fn what_is_no_preflight_or_has_a_route_of_its_own_is_served_as_any_other_request() {
    let mut fixture = Fixture::new(ROUTES);
    for (head, status) in [
        (preflight("/own", APP, "GET"), 200),
        (preflight("/off", APP, "GET"), 200),
        (preflight("/denied", APP, "GET"), 403),
        (preflight("/x", APP, "DELETE"), 405),
        (head("OPTIONS", "/x", &[("origin", APP)]), 405),
        (head("OPTIONS", "/x", &[("access-control-request-method", "GET")]), 405),
    ] {
        assert_eq!(reply(&mut fixture, &head).status, status, "{head:?}");
    }
}

#[test]
fn a_preflight_comes_before_the_password() {
    let (_folder, mut fixture) =
        protected("", "cors = { origins = \"https://app.example.com\" }\nfixed = {}");
    let allowed = reply(&mut fixture, &preflight("/", APP, "POST"));
    assert_eq!(allowed.status, 204);
    assert_eq!(value(&allowed, "access-control-allow-methods").as_deref(), Some("GET, HEAD, POST"));
    let refused = reply(&mut fixture, &head("GET", "/", &[("origin", APP)]));
    assert_eq!(refused.status, 401);
    assert_eq!(value(&refused, "access-control-allow-origin").as_deref(), Some(APP));
}

#[test]
fn every_response_says_who_may_read_it() {
    let mut fixture = Fixture::new(ROUTES);
    for (path, origin, allowed, vary) in [
        ("/x.json", APP, Some(APP), Some("Origin")),
        ("/x.json", "null", None, Some("Origin")),
        ("/x.json", "", None, Some("Origin")),
        ("/denied", APP, Some(APP), Some("Origin")),
        ("/any", "null", Some("*"), None),
        ("/any", "", Some("*"), None),
        ("/off", APP, None, None),
    ] {
        let lines: &[_] = if origin.is_empty() { &[] } else { &[("origin", origin)] };
        let reply = reply(&mut fixture, &head("GET", path, lines));
        let found = value(&reply, "access-control-allow-origin");
        assert_eq!(found.as_deref(), allowed, "{path} {origin}");
        assert_eq!(value(&reply, "vary").as_deref(), vary, "{path} {origin}");
        let exposed = allowed.filter(|_| path != "/any").map(|_| "etag".to_owned());
        assert_eq!(value(&reply, "access-control-expose-headers"), exposed, "{path} {origin}");
    }
    let twice = head("GET", "/x.json", &[("origin", APP), ("origin", APP)]);
    assert_eq!(value(&reply(&mut fixture, &twice), "access-control-allow-origin"), None);
}

#[test]
fn fields_of_an_upstream_about_other_origins_give_way() {
    let mut fixture = Fixture::new(ROUTES);
    let request = head("GET", "/x", &[("origin", APP)]);
    let Decision::Handle(mut routed) = fixture.decide(&request, &peer(false)) else {
        panic!("the request is handled");
    };
    let _ = routed.request(request, peer(false), None, false);
    let line = |name: &'static str, value: &'static str| {
        (http::HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    let mut head = crate::exchange::message::Head {
        status: 200,
        fields: vec![
            line("access-control-allow-origin", "*"),
            line("vary", "accept, origin"),
            line("access-control-expose-headers", "x-b"),
        ],
        length: None,
        end: true,
    };
    routed.edit_response(&mut head);
    let fields: Vec<_> = head.fields.iter().map(|(name, value)| (name.as_str(), value)).collect();
    assert_eq!(
        fields,
        [
            ("vary", "accept, origin"),
            ("access-control-allow-origin", APP),
            ("access-control-allow-credentials", "true"),
            ("access-control-expose-headers", "etag"),
        ]
        .map(|(name, value)| (name, HeaderValue::from_str(value).unwrap()))
        .each_ref()
        .map(|(name, value)| (*name, value))
    );
}

#[test]
fn redirects_of_a_file_come_before_handler_and_password_and_after_networks() {
    let folder = tempfile::tempdir().unwrap();
    let (users, file) = (folder.path().join("users"), folder.path().join("r.csv"));
    std::fs::write(&users, ADA).unwrap();
    std::fs::write(
        &file,
        "/old,/new{query},301\n/docs/*,https://docs.example/{rest}\n/gone,,410\n",
    )
    .unwrap();
    let mut fixture = Fixture::new(&format!(
        "[[site]]\nname = \"a\"\nredirects = '{}'\nresponse_headers.set = {{ x-a = \"{{path}}\" }}\n\
         [[route]]\npath = \"/\"\nsite = \"a\"\nbasic_auth = {{ users_file = '{}' }}\nfixed = {{}}\n\
         [[route]]\npath = \"/docs/in\"\nsite = \"a\"\ndeny = \"all\"\nfixed = {{}}\n",
        file.display(),
        users.display()
    ));
    for (path, status, location) in [
        ("/old", 301, Some("/new")),
        ("/docs/a/b", 308, Some("https://docs.example/a/b")),
        ("/docs/in/x", 403, None),
        ("/gone", 410, None),
        ("/older", 401, None),
    ] {
        let reply = reply(&mut fixture, &head("GET", path, &[]));
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(value(&reply, "location").as_deref(), location, "{path}");
        assert_eq!(value(&reply, "x-a").is_some(), status < 400, "{path}");
    }
}

#[test]
fn a_prefix_of_a_proxy_gets_its_slash_unless_a_route_has_the_path() {
    let mut fixture = Fixture::new(
        "[[route]]\npath = [\"/app/\", \"/deep/er/\"]\nproxy = { upstreams = \"a:1\" }\n\
         [[route]]\npath = \"/files/\"\nfiles = { root = \"/\" }\n\
         [[route]]\npath = \"/exact/\"\nproxy = { upstreams = \"a:1\" }\n\
         [[route]]\npath = \"= /exact\"\nfixed = { status = 202 }\n\
         [[route]]\npath = \"/both/\"\nmethod = \"GET\"\nproxy = { upstreams = \"a:1\" }\n\
         [[route]]\npath = \"/both\"\nfixed = { status = 203 }\n\
         [[route]]\npath = \"/closed/\"\ndeny = \"all\"\nproxy = { upstreams = \"a:1\" }\n\
         [[route]]\npath = \"/\"\nfixed = {}\n",
    );
    for (path, status, location) in [
        ("/app", 308, Some("/app/?a=1")),
        ("/deep/er", 308, Some("/deep/er/?a=1")),
        ("/deep", 200, None),
        ("/apple", 200, None),
        ("/files", 200, None),
        ("/exact", 202, None),
        ("/both", 203, None),
        ("/closed", 403, None),
    ] {
        let reply = reply(&mut fixture, &head("GET", &format!("{path}?a=1"), &[]));
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(value(&reply, "location").as_deref(), location, "{path}");
    }
    let decision = fixture.decide(&head("GET", "/app/", &[]), &peer(false));
    assert!(matches!(decision, Decision::Handle(_)), "{decision:?}");
}
