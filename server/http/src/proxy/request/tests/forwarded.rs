//! Fields about the client and the way of a request.

use std::sync::Arc;

use sluicegate_config::Via;

use super::*;
use crate::exchange::test_front::peer;
use crate::peer::PeerConnection;
use crate::trusted_proxies::TrustedProxies;

#[test]
fn claims_of_the_client_about_itself_are_replaced() {
    let claims = [
        ("x-forwarded-for", "127.0.0.1"),
        ("x_forwarded_for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "admin.example"),
        ("x-forwarded-prefix", "/admin"),
        ("x-real-ip", "127.0.0.1"),
        ("forwarded", "for=127.0.0.1"),
    ];
    let all = lines(head("GET", "/", &claims));
    let claimed =
        |(_, value): &(String, String)| value.contains("127.0.0.1") || value.contains("admin");
    assert!(!all.iter().any(claimed), "{all:?}");
    assert!(!all.iter().any(|(name, _)| name.contains('_')));
    assert_eq!(values(head("GET", "/", &claims), "x-forwarded-for"), ["192.0.2.7"]);
    // They are not believed either where nothing is put in their place.
    let silent = Proxy { forwarded: false, ..config() };
    let request = rewritten(head("GET", "/", &claims), &silent).unwrap();
    assert_eq!(request.lines.len(), 2, "{request:?}");
}

#[test]
fn claims_have_one_shape_and_a_route_may_let_some_through() {
    let claims = [
        ("client-ip", "127.0.0.1"),
        ("wl-proxy-client-ip", "127.0.0.1"),
        ("x-azure-clientip", "127.0.0.1"),
        ("client_ip", "127.0.0.1"),
        ("remote-user", "admin"),
        ("remote_user", "admin"),
        ("x-original-url", "/admin"),
        ("x_original_url", "/admin"),
        ("x-rewrite-url", "/admin"),
    ];
    let plain = rewritten(head("GET", "/", &[]), &config()).unwrap();
    let request = rewritten(head("GET", "/", &claims), &config()).unwrap();
    assert_eq!(request, plain);
    let passing = Proxy { pass_fields: vec!["x-original-url".to_owned()], ..config() };
    let request = rewritten(head("GET", "/", &claims), &passing).unwrap();
    assert_eq!(request.values("x-original-url"), ["/admin"]);
    assert_eq!(request.lines.len(), plain.lines.len() + 1);
}

/// Returns the client at 192.0.2.7 of a connection whose listener trusts these networks.
fn trusting(networks: &str, field: &str, head: RequestHead) -> Request {
    let listener = format!(
        "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n\
         trusted_proxies = \"{networks}\"\nclient_address_field = \"{field}\"\n"
    );
    let registry = sluicegate_cc::Registry::builtin();
    let config = sluicegate_config::Config::from_toml("test.toml", &listener, &registry).unwrap();
    let mut request = request(head, None, false);
    let connection = PeerConnection {
        trusted_proxies: Arc::new(TrustedProxies::of(&config.listeners[0])),
        ..(*request.peer.connection).clone()
    };
    request.peer.connection = Arc::new(connection);
    request.peer = request.peer.clone().of_request(&request.head.headers);
    request
}

/// Returns the fields that an upstream gets, as lines.
fn sent(request: &Request, proxy: &Proxy) -> String {
    lines_of(&rewrite(request, proxy, &Unchanged, "/", Framing::None, "x").unwrap())
}

fn lines_of(head: &UpstreamHead<'_>) -> String {
    let lines = Rewritten::of(head).lines.into_iter();
    lines.map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("\n")
}

const CLAIMS: [(&str, &str); 9] = [
    ("x-forwarded-for", "1.1.1.1, 198.51.100.1"),
    ("x-forwarded-proto", "http"),
    ("x-forwarded-host", "www.example"),
    ("x-forwarded-port", "80"),
    ("x_forwarded_for", "6.6.6.6"),
    ("forwarded", "for=2.2.2.2, for=198.51.100.2;proto=http"),
    ("x-real-ip", "198.51.100.1"),
    ("cf-connecting-ip", "127.0.0.1"),
    ("accept", "a"),
];

#[test]
fn claims_of_an_untrusted_client_are_dropped_and_written_anew() {
    for networks in ["10.0.0.0/8", "192.0.2.6"] {
        let request = trusting(networks, "x-forwarded-for", head("GET", "/", &CLAIMS));
        assert_eq!(request.peer.address.to_string(), "192.0.2.7:50000");
        assert_eq!(
            sent(&request, &config()),
            "host: example.org\naccept: a\nvia: 3 sluicegate\nforwarded: for=192.0.2.7;host=example.org;proto=https\n\
             x-forwarded-for: 192.0.2.7\nx-forwarded-host: example.org\nx-forwarded-proto: https"
        );
    }
}

#[test]
fn what_a_trusted_proxy_writes_is_extended_and_its_other_field_written_anew() {
    let request = trusting("192.0.2.0/24", "x-forwarded-for", head("GET", "/", &CLAIMS));
    assert_eq!(request.peer.address.to_string(), "198.51.100.1:0");
    assert_eq!(
        sent(&request, &config()),
        "host: example.org\nx-forwarded-proto: http\nx-forwarded-host: www.example\nx-forwarded-port: 80\n\
         accept: a\nvia: 3 sluicegate\nforwarded: for=198.51.100.1, for=192.0.2.7;host=example.org;proto=https\n\
         x-forwarded-for: 1.1.1.1, 198.51.100.1, 192.0.2.7"
    );
    let request = trusting("192.0.2.7", "forwarded", head("GET", "/", &CLAIMS));
    assert_eq!(request.peer.address.to_string(), "198.51.100.2:0");
    assert_eq!(
        sent(&request, &config()),
        "host: example.org\naccept: a\nvia: 3 sluicegate\nforwarded: for=2.2.2.2, for=198.51.100.2;proto=http, \
         for=192.0.2.7;host=example.org;proto=https\n\
         x-forwarded-for: 198.51.100.2, 192.0.2.7\nx-forwarded-host: example.org\nx-forwarded-proto: https"
    );
}

#[test]
fn what_a_client_leaves_open_reaches_no_upstream() {
    let claims = [
        ("forwarded", "for=1.1.1.1;a=\", for=198.51.100.2"),
        ("x-forwarded-for", "\"1.1.1.1, 198.51.100.1"),
    ];
    let request = trusting("192.0.2.7", "forwarded", head("GET", "/", &claims));
    let rewritten = sent(&request, &config());
    let written = "forwarded: for=198.51.100.2, for=192.0.2.7;host=example.org;proto=https\n\
                   x-forwarded-for: 198.51.100.2, 192.0.2.7\n";
    assert!(rewritten.contains(written), "{rewritten}");
    let request = trusting("192.0.2.7", "x-forwarded-for", head("GET", "/", &claims));
    let rewritten = sent(&request, &config());
    let written = "forwarded: for=198.51.100.1, for=192.0.2.7;host=example.org;proto=https\n\
                   x-forwarded-for: 198.51.100.1, 192.0.2.7\n";
    assert!(rewritten.contains(written), "{rewritten}");
    // Without anything readable, the proxy is all that is known.
    let request = trusting("192.0.2.7", "forwarded", head("GET", "/", &[("forwarded", "\"")]));
    assert_eq!(request.peer.address, request.peer.proxy.unwrap());
    let rewritten = sent(&request, &config());
    let written =
        "forwarded: for=192.0.2.7;host=example.org;proto=https\nx-forwarded-for: 192.0.2.7\n";
    assert!(rewritten.contains(written), "{rewritten}");
}

#[test]
fn upstreams_that_learn_no_addresses_get_none_from_a_trusted_proxy_either() {
    let request = trusting("192.0.2.7", "x-forwarded-for", head("GET", "/", &CLAIMS));
    let silent = Proxy { forwarded: false, via: Via::Off, ..config() };
    assert_eq!(sent(&request, &silent), "host: example.org\naccept: a");
}

#[test]
fn proxy_adds_no_field_that_the_configuration_removes() {
    let handler = sluicegate_config::Handler::Generate(sluicegate_config::Generate { max_size: 1 });
    let mut route = sluicegate_config::Route::new("/", handler);
    let names = ["via", "forwarded", "x-forwarded-host", "x-forwarded-proto"];
    route.own.request_headers.remove = names.map(str::to_owned).to_vec();
    route.own.request_headers.set = vec![("x-forwarded-proto".to_owned(), "other".to_owned())];
    let limits = sluicegate_config::Config::embedded().limits;
    let site = crate::route::Site::compile(&[route], &limits).unwrap();
    let compiled = site.any_route().unwrap();
    let mut given = head("GET", "/", &[("via", "2 before")]);
    compiled.edit_request(&mut given, &peer(false), None);
    let rules = &**compiled as &dyn RequestRules;
    let given = request(given, None, false);
    let rewritten = rewrite(&given, &config(), rules, "/", Framing::None, "x").unwrap();
    assert_eq!(
        lines_of(&rewritten),
        "host: example.org\nx-forwarded-proto: other\nx-forwarded-for: 192.0.2.7"
    );
}

#[test]
fn via_has_the_configured_name() {
    let named = |via| Proxy { via, ..config() };
    let via = |via| {
        let request = rewritten(head("GET", "/", &[]), &named(via)).unwrap();
        request.values("via").join(", ")
    };
    assert_eq!(via(Via::Name("edge-1".to_owned())), "3 edge-1");
    assert_eq!(via(Via::Off), "");
}

#[test]
fn what_the_configuration_says_about_the_client_stays() {
    let handler = sluicegate_config::Handler::Generate(sluicegate_config::Generate { max_size: 1 });
    let mut route = sluicegate_config::Route::new("/", handler);
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    route.own.request_headers.set =
        vec![set("x-forwarded-prefix", "/app"), set("x-forwarded-proto", "other")];
    let limits = sluicegate_config::Config::embedded().limits;
    let site = crate::route::Site::compile(&[route], &limits).unwrap();
    let lines =
        [("x-forwarded-prefix", "/app"), ("x-forwarded-proto", "other"), ("x-forwarded-port", "1")];
    let given = request(head("GET", "/", &lines), None, false);
    let rules = &**site.any_route().unwrap() as &dyn RequestRules;
    let rewritten = rewrite(&given, &config(), rules, "/", Framing::None, "x").unwrap();
    let rewritten = Rewritten::of(&rewritten);
    assert_eq!(rewritten.values("x-forwarded-prefix"), ["/app"]);
    assert_eq!(rewritten.values("x-forwarded-proto"), ["other"]);
    assert_eq!(rewritten.values("x-forwarded-for"), ["192.0.2.7"]);
    assert!(rewritten.values("x-forwarded-port").is_empty());
}
