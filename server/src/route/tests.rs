use sluicegate_config::Route;

use super::*;

fn limits() -> Limits {
    sluicegate_config::Config::embedded().limits
}

fn page(path: &str, text: &str) -> Route {
    let handler = Handler::Fixed {
        status: 200,
        content_type: "text/html".to_owned(),
        body: sluicegate_config::Body::Text(text.to_owned()),
    };
    Route::new(path, handler)
}

fn generator(path: &str) -> Route {
    Route::new(path, Handler::Generate { max_size: 1024 })
}

fn ask(site: &Site, method: &str, path: &str) -> Reply {
    site.answer(&RequestHead {
        method: method.to_owned(),
        scheme: Some("https".to_owned()),
        authority: "example.org".to_owned(),
        path: path.to_owned(),
        query: None,
        headers: Vec::new(),
    })
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
        ] {
            let body = Body::Bytes(Bytes::from_static(text.as_bytes()));
            assert_eq!(ask(&site, "GET", path).body, body, "{path}");
        }
        routes.reverse();
    }
}

#[test]
fn other_paths_and_methods_are_refused() {
    let site = site(&[page("/a", "a")]);
    assert_eq!(ask(&site, "GET", "/b").status, 404);
    let refused = ask(&site, "POST", "/a");
    assert_eq!(refused.status, 405);
    assert!(refused.headers.contains(&(ALLOW, ALLOWED)));
    assert_eq!(ask(&site, "get", "/a").status, 405);
    assert_eq!(ask(&site, "OPTIONS", "*").status, 204);
    assert_eq!(ask(&site, "CONNECT", "").status, 501);
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
        for path in [
            "/bytes/",
            "/bytes/1025",
            "/bytes/-1",
            "/bytes/1/2",
            "/bytes//1",
        ] {
            assert_eq!(ask(&site, "GET", path).status, 404, "{path}");
        }
    }
}

#[test]
fn a_file_is_read_when_compiled() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("page.html");
    let handler = Handler::Fixed {
        status: 200,
        content_type: "text/html".to_owned(),
        body: sluicegate_config::Body::File(file.clone()),
    };
    let route = Route::new("/", handler);
    let refusal = Site::compile(std::slice::from_ref(&route), &limits())
        .unwrap_err()
        .to_string();
    assert!(
        refusal.contains("route /: cannot read body_file"),
        "{refusal}"
    );
    assert!(
        refusal.contains("page.html") && !refusal.contains('\n'),
        "{refusal}"
    );
    fs::write(&file, "hello").unwrap();
    let site = Site::compile(&[route], &limits()).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(
        ask(&site, "GET", "/").body,
        Body::Bytes(Bytes::from_static(b"hello"))
    );
}
