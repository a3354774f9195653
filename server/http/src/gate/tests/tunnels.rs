//! Tests which tunnels routes open.

use super::*;

#[test]
fn tunnel_needs_the_password_of_its_route_too() {
    let websocket = tunnel(Some("websocket"));
    let mut with_password = websocket.clone();
    let value = HeaderValue::from_static("Basic YWRhOnNlY3JldA==");
    with_password.headers.push((AUTHORIZATION, value));
    let (_folder, mut fixture) = protected("", "fixed = {}");
    assert_eq!(fixture.refused(&websocket, &peer(false)).status, 401);
    assert_eq!(fixture.refused(&with_password, &peer(false)).status, 501);
    let (_folder, mut fixture) = protected("", "proxy = { upstreams = \"a:1\" }");
    assert_eq!(fixture.refused(&websocket, &peer(false)).status, 401);
    let decision = fixture.decide(&with_password, &peer(false));
    let is_open = matches!(&decision, Decision::Handle(routed) if routed.is_tunnel());
    assert!(is_open, "{decision:?}");
}

#[test]
fn each_handler_opens_tunnels_of_its_protocol_alone() {
    let (websocket, udp) = (tunnel(Some("websocket")), tunnel(Some("connect-udp")));
    for (handler, opened, refused) in [
        ("proxy = { upstreams = \"a:1\" }", &websocket, &udp),
        ("files = { root = \"/\" }\nproxy = { upstreams = \"a:1\" }", &websocket, &udp),
        ("connect_udp = { allow = \"a:1\" }", &udp, &websocket),
    ] {
        let mut fixture = Fixture::new(&format!("[[route]]\npath = \"/\"\n{handler}\n"));
        assert_eq!(fixture.refused(refused, &peer(false)).status, 501);
        assert_eq!(fixture.counters.tunnels, 1);
        let decision = fixture.decide(opened, &peer(false));
        assert!(matches!(&decision, Decision::Handle(routed) if routed.is_tunnel()));
    }
}

#[test]
fn no_handler_of_the_server_itself_opens_a_tunnel() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chat"), "file").unwrap();
    let files = format!("files = {{ root = '{}' }}", folder.path().display());
    for (handler, expected) in [
        ("fixed = {}", 501),
        ("fixed = { body = \"page\" }\ncompress = true", 501),
        ("fixed = { status = 404 }", 404),
        ("generate = {}", 405),
        ("redirect = { location = \"https://b.example/\" }", 308),
        (&files, 501),
        ("proxy = { upstreams = \"a:1\", websocket = false }", 501),
    ] {
        let mut fixture = Fixture::new(&format!("[[route]]\npath = \"/\"\n{handler}\n"));
        for (protocol, count) in [("websocket", 1), ("connect-udp", 2)] {
            let reply = fixture.refused(&tunnel(Some(protocol)), &peer(false));
            assert_eq!(reply.status, expected, "{handler}");
            let counted = if expected == 501 { count } else { 0 };
            assert_eq!(fixture.counters.tunnels, counted, "{handler}");
        }
        let other = fixture.refused(&tunnel(Some("other")), &peer(false));
        assert_eq!(other.status, 501, "{handler}");
        let plain = fixture.refused(&tunnel(None), &peer(false));
        assert_eq!(plain.status, 501, "{handler}");
    }
}
