//! Parsing of routes: each key keeps its value.

use std::time::Duration;

use super::parse;
use super::values::UNUSUAL;
use crate::{Handler, HeaderEdits, HostPattern, Inheritable, ResponseHeaders, Route, StatusRange};

#[test]
fn a_route_knows_its_requests_and_what_it_changes() {
    let config = parse(UNUSUAL).unwrap();
    let route = &config.routes[3];
    let exact = |host: &str| HostPattern::Exact(host.to_owned());
    assert_eq!(
        route.hosts(),
        [
            exact("example.org"),
            HostPattern::Suffix(".example.org".to_owned()),
            exact("[2001:db8::1]"),
            exact("192.0.2.1"),
        ]
    );
    assert_eq!(route.methods, ["GET", "M-SEARCH"]);
    assert_eq!(route.own.max_request_body, Some(2 << 30));
    let networks = |list: &[ipnet::IpNet]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(networks(&route.own.allow), ["10.0.0.0/8", "::/0"]);
    assert_eq!(networks(&route.own.deny), ["192.0.2.7/32"]);
    let auth = route.own.basic_auth.given().unwrap();
    assert!(auth.users_file.ends_with("users") && auth.forward);
    assert_eq!(auth.realm, "\"a\"");
    assert_eq!(config.routes[4].own.basic_auth, Inheritable::Unset);
    let limit = route.own.rate_limit.given().unwrap();
    assert_eq!((limit.rate.count, limit.rate.unit.as_secs()), (600, 60));
    assert_eq!((limit.burst(), limit.clients), (7, 2048));
    assert_eq!(route.own.timeout, Some(Duration::from_secs(90)));
    let fields = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        list.iter().map(owned).collect()
    };
    let request = HeaderEdits {
        remove: vec!["x-secret".to_owned()],
        set: fields(&[("x-a", ""), ("x-b", "b \"' b")]),
        add: fields(&[("via", "3 edge")]),
    };
    assert_eq!(route.own.request_headers, request);
    let edits = HeaderEdits {
        remove: vec!["server".to_owned(), "x-powered-by".to_owned()],
        set: Vec::new(),
        add: fields(&[("cache-control", "no-store"), ("link", "<b>"), ("link", "<a>")]),
    };
    let range = |first, last| StatusRange { first, last };
    let conditional = ResponseHeaders {
        edits: HeaderEdits { set: fields(&[("x-c", "c")]), ..HeaderEdits::default() },
        always: false,
        status: vec![range(200, 299), range(404, 404), range(500, 503)],
    };
    let always = ResponseHeaders { edits, always: true, status: Vec::new() };
    assert_eq!(route.own.response_headers, [always, conditional]);
    let plain = &config.routes[0];
    let unchanged = Route::new("/", plain.handler.clone());
    assert_eq!(*plain, unchanged);
}

#[test]
fn files_may_have_a_fallback_in_any_order() {
    let config = parse(UNUSUAL).unwrap();
    let route = config.routes.last().unwrap();
    assert!(matches!(route.handler, Handler::Files(_)));
    let Some(Handler::Proxy(proxy)) = &route.fallback.0 else { panic!("a proxy") };
    assert_eq!(proxy.pool.pool().name, "app");
    assert_eq!((route.priority, route.handlers().count()), (7, 2));
    let listener = "[[listener]]\nname = \"l\"\naddress = \"[::]:1\"\ntls = \"self-signed\"\n";
    let (files, proxy) = ("files = { root = \"/\" }\n", "proxy = { upstreams = \"a:1\" }\n");
    let file = |first, second| format!("{listener}[[route]]\npath = \"/\"\n{first}{second}");
    assert_eq!(parse(&file(files, proxy)), parse(&file(proxy, files)));
    assert!(parse(&file(files, proxy)).is_ok());
}

#[test]
fn fastcgi_beside_files_has_its_servers_and_defaults() {
    let listener = "[[listener]]\nname = \"l\"\naddress = \"[::]:1\"\ntls = \"self-signed\"\n";
    let route = |files: &str, fastcgi: &str| {
        parse(&format!(
            "{listener}[[route]]\npath = \"/\"\nfiles = {{ root = \"/w\"{files} }}\nfastcgi = {{ root = \"/w\", {fastcgi} }}\n"
        ))
    };
    let config = route("", "server = [\"unix:/run/fpm.sock\", \"php\"]").unwrap();
    let Some(Handler::FastCgi(fastcgi)) = &config.routes[0].fallback.0 else { panic!("FastCGI") };
    assert_eq!(fastcgi.pool().pool().name, "fastcgi://unix:/run/fpm.sock,fastcgi://php:9000");
    assert_eq!(
        (&*fastcgi.index, &*fastcgi.split),
        (&["index.php".to_owned()][..], &[".php".to_owned()][..])
    );
    assert_eq!(fastcgi.front_controller, None);
    for (files, fastcgi, found) in [
        (", try = [\"{path}\", \"/index.php\"]", "", "\"/index.php\" in `try`"),
        (", index = \"index.php\"", "", "\"index.php\" in `index`"),
        (
            "",
            ", index = \"index.html\"",
            "\"index.html\" for `index`; expected a name with an ending of `split`: .php",
        ),
        ("", ", front_controller = \"/app.py\"", "\"/app.py\" for `front_controller`"),
        (
            "",
            ", front_controller = \"../a.php\"",
            "for `front_controller`; expected the path of a script",
        ),
        ("", ", split = \"php\"", "for `split`"),
        ("", ", params = { \"A-B\" = \"1\" }", "parameter \"A-B\" in `params`"),
        ("", ", params = { A = 1 }", "integer 1 for `A`"),
    ] {
        let error = route(files, &format!("server = \"php\"{fastcgi}")).unwrap_err().to_string();
        assert!(error.contains(found), "{error}");
    }
}
