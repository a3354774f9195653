//! Decisions about the requests of clients that may not use a route, and about those for tunnels.

mod cors;
mod readings;
mod response_fields;
mod tunnels;

use std::sync::Arc;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use sluicegate_base::clock;
use sluicegate_config::Config;

use super::*;
use crate::exchange::test_front::{head, peer, tunnel};
use crate::exchange::{Body, Reply};
use crate::identification::Identification;
use crate::peer::PeerConnection;
use crate::route::UnverifiedRequest;
use crate::trusted_proxies::TrustedProxies;

/// A gate with the state that it borrows.
struct Fixture {
    site: Arc<Site>,
    cache: Cache,
    counters: GateCounters,
}

impl Fixture {
    fn new(routes: &str) -> Fixture {
        let limits = Config::embedded().limits;
        let site = Site::of_routes(routes, &limits);
        Fixture { cache: Cache::new(site.file_store()), site, counters: GateCounters::default() }
    }

    /// Returns a gate that identifies requests by X-Request-Id.
    fn identified(routes: &str) -> Fixture {
        let listener = "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n";
        let registry = sluicegate_cc::Registry::builtin();
        let text = format!("{listener}{routes}");
        let config = Config::from_toml("test.toml", &text, &registry).unwrap();
        let identification = Identification::new(&config.tracing, &config.telemetry);
        let site = Site::compile_identified(&config.routes, &config.limits, identification);
        Fixture { site: Arc::new(site.unwrap()), ..Fixture::new("") }
    }

    fn gate(&mut self) -> Gate<'_> {
        Gate {
            site: &self.site,
            cache: &mut self.cache,
            memory_is_short: false,
            counters: &mut self.counters,
            now: clock::now(),
        }
    }

    fn decide(&mut self, head: &RequestHead, peer: &Peer) -> Decision {
        self.gate().decide(&RequestArrival {
            head,
            path_refused: false,
            peer,
            content_length: None,
            expects_status: false,
            has_body: true,
            running: 0,
        })
    }

    /// Returns the response of a refusal.
    fn refused(&mut self, head: &RequestHead, peer: &Peer) -> Reply {
        match self.decide(head, peer) {
            Decision::Refuse(refusal) => refusal.reply,
            other => panic!("{other:?}"),
        }
    }
}

/// Servlet containers drop the parameters of a path before they look for what it names.
#[test]
fn path_parameters_do_not_lead_around_the_rules_of_a_route() {
    let mut fixture = Fixture::new(
        "[[route]]\npath = \"/admin\"\nallow = \"10.0.0.0/8\"\nproxy = { upstreams = \"a:1\" }\n\
         [[route]]\npath = \"/\"\nproxy = { upstreams = \"a:1\" }\n",
    );
    let hidden = ["/admin;x=1/users", "/admin;x", "/admin%3Bx/users", "/;x/admin"];
    for path in hidden {
        match fixture.decide(&head("GET", path, &[]), &peer(false)) {
            Decision::Discard(reply, _) => assert_eq!(reply.status, 400, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
    for path in ["/open;x=1/users", "/;x", "/administration;x"] {
        let decision = fixture.decide(&head("GET", path, &[]), &peer(false));
        assert!(matches!(decision, Decision::Handle(_)), "{path}");
    }
}

#[test]
fn path_parameters_may_lead_to_a_route_with_the_same_rules() {
    for (outer, inner, is_refused) in [
        ("", "", false),
        ("allow = \"192.0.2.0/25\"", "", false),
        ("deny = \"10.9.0.0/16\"", "", false),
        ("", "allow = \"192.0.2.0/25\"", true),
        ("", "deny = \"10.9.0.0/16\"", true),
        ("allow = \"all\"", "", true),
        ("rate_limit = { rate = \"1/h\" }", "", true),
    ] {
        let mut fixture = Fixture::new(&format!(
            "[[site]]\nname = \"a\"\nallow = \"192.0.2.0/24\"\ndeny = \"10.8.0.0/16\"\nrate_limit = {{ rate = \"9/s\" }}\n\
             [[route]]\npath = \"/\"\nsite = \"a\"\n{outer}\nproxy = {{ upstreams = \"a:1\" }}\n\
             [[route]]\npath = \"/app\"\nsite = \"a\"\n{inner}\nproxy = {{ upstreams = \"a:1\" }}\n",
        ));
        match fixture.decide(&head("GET", "/app;x=1/y", &[]), &peer(false)) {
            Decision::Handle(_) => assert!(!is_refused, "{outer} {inner}"),
            Decision::Discard(reply, _) => {
                assert_eq!((reply.status, is_refused), (400, true), "{outer} {inner}");
            }
            other => panic!("{outer} {inner}: {other:?}"),
        }
    }
}

#[test]
fn path_parameters_do_not_lead_around_the_rate_limit_of_a_route() {
    let mut fixture = Fixture::new(
        "[[route]]\npath = \"/login\"\nrate_limit = { rate = \"1/h\" }\nproxy = { upstreams = \"a:1\" }\n\
         [[route]]\npath = \"/\"\nproxy = { upstreams = \"a:1\" }\n",
    );
    match fixture.decide(&head("POST", "/login;x=1", &[]), &peer(false)) {
        Decision::Discard(reply, _) => assert_eq!(reply.status, 400),
        other => panic!("{other:?}"),
    }
    for path in ["/login/a;x=1", "/open;x"] {
        let decision = fixture.decide(&head("POST", path, &[]), &peer(false));
        assert!(matches!(decision, Decision::Handle(_)), "{path}");
    }
}

#[test]
fn denied_client_gets_403_by_every_handler_and_its_body_is_not_read() {
    let mut fixture = Fixture::new(
        "[[route]]\npath = \"/fixed\"\ndeny = \"192.0.2.0/24\"\nfixed = { body = \"secret\" }\n\
         [route.response_headers]\nset = { x-a = \"{path}\" }\nalways = true\n\
         [[route]]\npath = \"/app\"\nallow = \"10.0.0.0/8\"\nproxy = { upstreams = \"a:1\" }\n\
         [[route]]\npath = \"/\"\nfixed = {}\n",
    );
    for path in ["/fixed", "/app/x"] {
        let reply = fixture.refused(&head("GET", path, &[]), &peer(false));
        assert_eq!(reply.status, 403, "{path}");
        assert_eq!(reply.body, Body::Bytes("403 forbidden\n".into()));
        let marked = reply.headers.iter().any(|(name, _)| name == "x-a");
        assert_eq!(marked, path == "/fixed", "the route's fields");
    }
    assert_eq!(fixture.counters.denied, 2);
    let decision = fixture.decide(&head("GET", "/", &[]), &peer(false));
    assert!(matches!(decision, Decision::Discard(..)), "{decision:?}");
    let elsewhere = Peer { address: "10.0.0.1:1".parse().unwrap(), ..peer(false) };
    let decision = fixture.decide(&head("GET", "/app/x", &[]), &elsewhere);
    assert!(matches!(decision, Decision::Handle(_)), "{decision:?}");
    assert_eq!(fixture.counters.denied, 2);
}

#[test]
fn client_is_the_one_that_a_trusted_proxy_names_and_nobody_else_names_one() {
    let mut fixture =
        Fixture::new("[[route]]\npath = \"/\"\ndeny = \"198.51.100.1\"\nfixed = {}\n");
    let text = "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\ntrusted_proxies = \"10.0.0.1\"\n";
    let registry = sluicegate_cc::Registry::builtin();
    let config = Config::from_toml("test.toml", text, &registry).unwrap();
    let connection = Arc::new(PeerConnection {
        trusted_proxies: Arc::new(TrustedProxies::of(&config.listeners[0])),
        ..PeerConnection::http3("l".into(), Box::default(), "cubic")
    });
    let named = head("GET", "/", &[("x-forwarded-for", "198.51.100.1")]);
    for (address, denied) in
        [("10.0.0.1:443", true), ("10.0.0.2:443", false), ("198.51.100.1:9", true)]
    {
        let peer = Peer {
            address: address.parse().unwrap(),
            connection: Arc::clone(&connection),
            ..peer(false)
        };
        let decision = fixture.decide(&named, &peer);
        assert_eq!(matches!(decision, Decision::Refuse(_)), denied, "{address}: {decision:?}");
    }
    assert_eq!(fixture.counters.denied, 2);
}

#[test]
fn rate_limit_counts_after_networks_and_before_passwords() {
    let (_folder, mut fixture) = protected(
        "",
        "allow = [\"192.0.2.0/24\"]\nrate_limit = { rate = \"1/m\", burst = 2 }\nfixed = {}\n\
         [route.response_headers]\nset = { x-a = \"{path}\" }\nalways = true",
    );
    let elsewhere = Peer { address: "10.0.0.1:1".parse().unwrap(), ..peer(false) };
    for (client, expected) in [
        (&elsewhere, 403),
        (&peer(false), 401),
        (&peer(false), 401),
        (&peer(false), 429),
        (&elsewhere, 403),
    ] {
        let reply = fixture.refused(&head("GET", "/x", &[]), client);
        assert_eq!(reply.status, expected);
        let fields = &reply.headers;
        let value = |wanted: &str| {
            let mut fields = fields.iter();
            let found = fields.find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.to_str().unwrap().to_owned())
        };
        assert_eq!(value("x-a").as_deref(), Some("/x"), "the route's fields");
        let wait = value("retry-after").map(|value| value.parse::<u64>().unwrap());
        assert!(wait.is_none_or(|wait| (1..=60).contains(&wait)));
        assert_eq!(wait.is_some(), expected == 429);
    }
    assert_eq!(fixture.counters.rate_limited, 1);
    match fixture.decide(&head("GET", "/", &[]), &peer(false)) {
        Decision::Refuse(refusal) => assert_eq!(refusal.cause, Some("rate_limit")),
        other => panic!("{other:?}"),
    }
}

/// The handshake shows whether the client still has the address.
#[test]
fn early_data_waits_where_addresses_count_and_not_for_a_rate_limit_alone() {
    let mut fixture = Fixture::new(
        "[[route]]\npath = \"/closed\"\nallow = \"192.0.2.0/24\"\nrate_limit = { rate = \"1/h\" }\nfixed = {}\n\
         [[route]]\npath = \"/\"\nrate_limit = { rate = \"1/h\" }\nfixed = {}\n",
    );
    let reply = fixture.refused(&head("GET", "/closed", &[]), &peer(true));
    assert_eq!((reply.status, fixture.counters.too_early), (425, 1));
    for (path, early_data) in [("/", true), ("/closed", false)] {
        match fixture.decide(&head("GET", path, &[]), &peer(early_data)) {
            Decision::Discard(reply, _) => assert_eq!(reply.status, 200, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
}

/// Line of a file of users: `ada` with the password `secret`.
const ADA: &str = "ada:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

fn protected(more: &str, handler: &str) -> (tempfile::TempDir, Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, ADA).unwrap();
    let file = file.display();
    let fixture = Fixture::new(&format!(
        "[[route]]\npath = \"/\"\nbasic_auth = {{ users_file = '{file}'{more} }}\n{handler}\n"
    ));
    (folder, fixture)
}

#[test]
fn request_without_credentials_gets_401_with_the_realm() {
    let (_folder, mut fixture) =
        protected(", realm = \"Back office\"", "fixed = { body = \"secret\" }");
    for lines in [&[][..], &[("authorization", "Bearer x")], &[("authorization", "Basic !")]] {
        let reply = fixture.refused(&head("GET", "/", lines), &peer(false));
        assert_eq!(reply.status, 401);
        let challenge = reply.headers.iter().find(|(name, _)| name == "www-authenticate");
        assert_eq!(challenge.unwrap().1, "Basic realm=\"Back office\", charset=\"UTF-8\"");
        assert_eq!(reply.body, Body::Bytes("401 name and password required\n".into()));
    }
    assert_eq!(fixture.counters.no_credentials, 3);
}

#[test]
fn credentials_go_to_the_origin_thread_whatever_the_handler_and_not_to_upstreams() {
    let authorization = ("authorization", "Basic YWRhOnNlY3JldA==");
    let other = ("[route.request_headers]\nset = { authorization = \"Bearer x\" }\n", "Bearer x");
    for (more, handler, expected) in [
        ("", "fixed = { body = \"secret\" }", None),
        ("", "proxy = { upstreams = \"a:1\" }", None),
        (", forward = true", "proxy = { upstreams = \"a:1\" }", Some(authorization.1)),
        ("", &format!("proxy = {{ upstreams = \"a:1\" }}\n{}", other.0), Some(other.1)),
    ] {
        let (_folder, mut fixture) = protected(more, handler);
        let head = head("GET", "/", &[authorization]);
        let Decision::Handle(mut routed) = fixture.decide(&head, &peer(false)) else {
            panic!("{handler}");
        };
        let request = routed.request(head, peer(false), None, false);
        let unverified = request.handler.downcast::<UnverifiedRequest>().unwrap();
        assert_eq!(unverified.credentials.user, b"ada");
        let left = request.head.headers.iter().find(|(name, _)| name == AUTHORIZATION);
        assert_eq!(left.map(|(_, value)| value.to_str().unwrap()), expected, "{handler}");
    }
}

#[test]
fn upstreams_learn_the_user_from_the_route_alone() {
    let edits = "[route.request_headers]\nset = { x-user = \"{user}\" }";
    let value = |request: &Request| {
        let mut fields = request.head.headers.iter();
        let found = fields.find(|(name, _)| name == "x-user");
        found.map(|(_, value)| value.to_str().unwrap().to_owned())
    };
    let claimed = [("authorization", "Basic YWRhOnNlY3JldA=="), ("x-user", "root")];
    let handler = format!("proxy = {{ upstreams = \"a:1\" }}\n{edits}");
    let (_folder, mut protected) = protected("", &handler);
    let mut open = Fixture::new(&format!("[[route]]\npath = \"/\"\n{handler}\n"));
    for (fixture, expected) in [(&mut protected, Some("ada")), (&mut open, None)] {
        let head = head("GET", "/", &claimed);
        let Decision::Handle(mut routed) = fixture.decide(&head, &peer(false)) else {
            panic!("the request is handled");
        };
        let request = routed.request(head, peer(false), None, false);
        assert_eq!(value(&request).as_deref(), expected);
    }
}

#[test]
fn fields_of_a_route_have_the_id_of_the_request() {
    let routes = "[[route]]\npath = \"/\"\nfixed = {}\nresponse_headers.set = { x-id = \"<{request_id}>\" }\n";
    let field = |fields: &[(http::HeaderName, HeaderValue)], wanted: &str| {
        let found = fields.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.to_str().unwrap().to_owned())
    };
    let reply = |fixture: &mut Fixture, head: &mut RequestHead| {
        let identified = fixture.gate().identify(head, false, || true);
        assert_eq!(identified.returned_id, None, "the response returns no ID of its own");
        match fixture.decide(head, &peer(false)) {
            Decision::Discard(reply, _) => reply.headers.iter().cloned().collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    let mut fixture = Fixture::identified(routes);
    let mut with_id = head("GET", "/", &[("x-request-id", "abc-1")]);
    let fields = reply(&mut fixture, &mut with_id);
    assert_eq!(field(&fields, "x-id").as_deref(), Some("<abc-1>"));
    // It is made for a request without one.
    let mut without = head("GET", "/", &[]);
    let fields = reply(&mut fixture, &mut without);
    let made = field(&without.headers, "x-request-id").unwrap();
    assert_eq!(field(&fields, "x-id"), Some(format!("<{made}>")));
    // A site whose routes name no ID makes none for its own responses.
    let mut plain = Fixture::identified(&routes.replace("<{request_id}>", "1"));
    let mut without = head("GET", "/", &[]);
    reply(&mut plain, &mut without);
    assert_eq!(field(&without.headers, "x-request-id"), None);
    let mut off = Fixture::identified(&format!("[tracing]\nrequest_id = \"off\"\n{routes}"));
    let fields = reply(&mut off, &mut with_id);
    assert_eq!(field(&fields, "x-id").as_deref(), Some("<>"));
}
