//! Contents in place of those of error responses.

use sluicegate_config::{ErrorPage, ErrorStatuses, Fixed};

use super::*;

fn fixed(path: &str, body: Option<&str>) -> Route {
    let handler = Handler::Fixed(Fixed {
        status: 404,
        content_type: "text/plain".to_owned(),
        body: body.map(str::to_owned),
        body_file: None,
    });
    Route::new(path, handler)
}

#[test]
fn an_error_has_the_page_of_its_route_unless_it_has_a_body_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("404.html");
    fs::write(&file, "<p>gone").unwrap();
    let with_page = |route: Route| Route {
        own: RouteSettings {
            error_pages: vec![ErrorPage { statuses: ErrorStatuses::One(404), file: file.clone() }],
            ..RouteSettings::default()
        },
        ..route
    };
    let routes = [
        with_page(generator("/bytes/")),
        with_page(fixed("/empty", None)),
        with_page(fixed("/own", Some("own"))),
        fixed("/plain", Some("plain")),
    ];
    let site = site(&routes);
    for (path, text, kind) in [
        ("/bytes/many", "<p>gone", "text/html; charset=utf-8"),
        ("/empty", "<p>gone", "text/html; charset=utf-8"),
        ("/own", "own", "text/plain"),
        ("/plain", "plain", "text/plain"),
    ] {
        let reply = ask(&site, "GET", path);
        assert_eq!(reply.status, 404, "{path}");
        assert_eq!(super::text(&reply), text.as_bytes(), "{path}");
        let kinds: Vec<_> =
            reply.headers.iter().filter(|(name, _)| name == "content-type").collect();
        assert_eq!(kinds.len(), 1, "{path}");
        assert_eq!(kinds[0].1, kind, "{path}");
    }
    let reply = ask(&site, "PUT", "/bytes/1");
    assert_eq!(reply.status, 405, "a status without a page");
    fs::remove_file(&file).unwrap();
    let refusal = Site::compile(&routes, &limits()).unwrap_err().to_string();
    let expected = "route /bytes/: cannot read the error page ";
    assert!(refusal.starts_with(expected), "{refusal}");
}
