//! Fields that a route sets on the errors of the server itself.

use super::*;
use crate::exchange::ReplyFields;
use crate::exchange::message::Head;

/// Changes of a route: a field for successes, one for every response, one for errors.
const CHANGES: &str = "[[route.response_headers]]\nset = { cache-control = \"max-age=31536000\" }\nremove = \"x-powered-by\"\n\
                       [[route.response_headers]]\nset = { x-always = \"{path}\" }\nalways = true\n\
                       [[route.response_headers]]\nadd = { x-error = \"1\" }\nstatus = [\"4xx\", \"500-599\"]\n";

const PROXY: &str = "proxy = { upstreams = \"a:1\" }";

/// Returns a gate with one route: its settings, its handler, and the changes.
fn fixture(settings: &str, handler: &str) -> Fixture {
    Fixture::new(&format!("[[route]]\npath = \"/\"\n{settings}\n{handler}\n{CHANGES}"))
}

/// Checks that an error has the fields for errors and for every response, and not that for successes.
fn check(reply: &Reply, status: u16) {
    assert_eq!(reply.status, status);
    let value = |name: &str| value(&reply.headers, name);
    let found = ["cache-control", "x-always", "x-error"].map(value);
    let [None, Some("/x" | "/chat"), Some("1")] = found else {
        panic!("{status}: {found:?}");
    };
}

fn value<'a>(fields: &'a ReplyFields, name: &str) -> Option<&'a str> {
    let found = fields.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.to_str().unwrap())
}

#[test]
fn every_refusal_of_a_request_with_a_route_has_the_fields_for_errors() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    std::fs::write(&users, ADA).unwrap();
    let password = format!("basic_auth = {{ users_file = '{}' }}", users.display());
    let refusals = [
        ("deny = \"192.0.2.0/24\"", PROXY, 403),
        (&password, PROXY, 401),
        ("rate_limit = { rate = \"1/h\" }", PROXY, 429),
        ("max_request_body = 7", PROXY, 413),
        // The limit of a response that needs no handler is that of the server.
        ("", "fixed = {}", 413),
        ("", "generate = {}", 413),
        ("", "redirect = \"/a\"", 413),
        ("", "files = { root = \"/\" }\nmax_request_body = 7", 413),
    ];
    for (settings, handler, status) in refusals {
        let mut fixture = fixture(settings, handler);
        let request = head("PUT", "/x", &[]);
        if status == 429 {
            fixture.decide(&request, &peer(false));
        }
        let length = (status == 413).then_some(u64::MAX);
        let decision = fixture
            .gate()
            .decide(&RequestArrival { content_length: length, ..arrival(&request, &peer(false)) });
        match decision {
            Decision::Refuse(refusal) => check(&refusal.reply, status),
            other => panic!("{settings} {handler}: {other:?}"),
        }
    }
}

fn arrival<'a>(head: &'a RequestHead, peer: &'a Peer) -> RequestArrival<'a> {
    RequestArrival {
        head,
        path_refused: false,
        peer,
        content_length: None,
        expects_status: false,
        has_body: true,
        running: 0,
    }
}

#[test]
fn a_request_for_which_there_is_no_room_has_the_fields_for_errors() {
    let request = head("GET", "/x", &[]);
    for (memory_is_short, running) in [(true, 0), (false, u64::MAX)] {
        let mut fixture = fixture("", PROXY);
        let mut gate = fixture.gate();
        gate.memory_is_short = memory_is_short;
        let decision = gate.decide(&RequestArrival { running, ..arrival(&request, &peer(false)) });
        match decision {
            Decision::Refuse(refusal) => check(&refusal.reply, 503),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_response_in_place_of_a_handlers_has_the_fields_for_errors() {
    for status in [408, 413, 502, 503, 504] {
        let mut fixture = fixture("", PROXY);
        let request = head("GET", "/x", &[]);
        let Decision::Handle(mut routed) = fixture.decide(&request, &peer(false)) else {
            panic!("the route forwards requests");
        };
        routed.request(request, peer(false), None, false);
        let mut reply = Reply::plain(status, "an error");
        routed.refuse(&mut reply);
        check(&reply, status);
    }
}

#[test]
fn a_tunnel_that_the_route_does_not_open_has_the_fields_for_errors() {
    for handler in ["files = { root = \"/\" }", "fixed = {}"] {
        let mut fixture = fixture("", handler);
        check(&fixture.refused(&tunnel(Some("websocket")), &peer(false)), 501);
    }
}

#[test]
fn a_handlers_response_has_the_fields_for_its_status() {
    for (status, expected) in [
        (200, [true, true, false]),
        (101, [true, true, false]),
        (304, [true, true, false]),
        (404, [false, true, true]),
        (500, [false, true, true]),
    ] {
        let mut fixture = fixture("", PROXY);
        let request = head("GET", "/x", &[]);
        let Decision::Handle(mut routed) = fixture.decide(&request, &peer(false)) else {
            panic!("the route forwards requests");
        };
        routed.request(request, peer(false), None, false);
        let mut head = Head {
            status,
            fields: vec![("x-powered-by", "a"), ("cache-control", "no-store")]
                .into_iter()
                .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
                .collect(),
            length: None,
            end: true,
        };
        routed.edit_response(&mut head);
        let fields = ReplyFields::Own(head.fields);
        let year = value(&fields, "cache-control") == Some("max-age=31536000");
        let there =
            [year, value(&fields, "x-always").is_some(), value(&fields, "x-error").is_some()];
        assert_eq!(there, expected, "{status}");
        assert_eq!(value(&fields, "x-powered-by"), None, "{status}");
        let is_there = value(&fields, "cache-control").is_some();
        assert!(is_there, "an error keeps its own");
    }
}
