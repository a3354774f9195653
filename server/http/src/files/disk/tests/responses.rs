//! Status, fields and body of responses.

use std::os::unix::fs::symlink;

use rustix::io::Errno;
use sluicegate_config::ErrorStatuses;

use super::*;
use crate::exchange::{Body, ErrorPage};
use crate::representation::fixture;

#[test]
fn a_file_is_sent() {
    let folder = Folder::new();
    folder.write("a b/page.html", "<p>");
    for method in ["GET", "HEAD"] {
        let response = folder.ask(method, "/a%20b/page.html?x=1", &[]);
        let head = response.head.as_ref().unwrap();
        assert_eq!((head.status, head.length), (200, Some(3)));
        assert_eq!(field(&response, "content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(field(&response, "last-modified"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(field(&response, "accept-ranges"), Some("bytes"));
        assert_eq!(field(&response, "vary"), Some("accept-encoding"));
        assert!(response.complete);
        let body = if method == "GET" { "<p>" } else { "" };
        assert_eq!(response.body, body.as_bytes());
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let folder = Folder::new();
    folder.write("a", "a");
    folder.write(".git/config", "secret");
    folder.write(".env", "secret");
    folder.write(".well-known/security.txt", "contact");
    fs::write(folder.outer.path().join("secret"), "secret").unwrap();
    for target in [
        "/b",
        "/a/",
        "/a/b",
        "/A",
        "/.git/config",
        "/.env",
        "/%2eenv",
        "/a%20",
        "/../secret",
        "/%2e%2e/secret",
        "/x/../../secret",
        "/%252e%252e/secret",
        "/..%252fsecret",
    ] {
        assert_eq!(status(&folder.get(target)), 404, "{target}");
    }
    let found = (200, "contact".to_owned());
    assert_eq!(folder.text("/.well-known/security.txt"), found);
}

#[test]
fn folders_respond_with_their_index() {
    let folder = Folder::new();
    folder.write("one/index.html", "one");
    folder.write("two/index.txt", "two");
    folder.write("three/other.html", "three");
    folder.write("four/index.html/x", "x");
    folder.write("four/index.txt", "four");
    assert_eq!(folder.text("/one/"), (200, "one".to_owned()));
    assert_eq!(folder.text("/two/"), (200, "two".to_owned()));
    assert_eq!(folder.text("/four/"), (200, "four".to_owned()));
    for target in ["/", "/three/", "/five/", "/one/index.html/"] {
        assert_eq!(status(&folder.get(target)), 404, "{target}");
    }
    let kind = |target| field(&folder.get(target), "content-type").unwrap().to_owned();
    assert_eq!(kind("/two/"), "text/plain; charset=utf-8");
    for (target, place) in [
        ("/one", "/one/"),
        ("/three?a=/b", "/three/?a=/b"),
        ("//one", "/one/"),
        ("/four/index.html", "/four/index.html/"),
    ] {
        let response = folder.get(target);
        assert_eq!(status(&response), 301, "{target}");
        assert_eq!(field(&response, "location"), Some(place), "{target}");
    }
}

#[test]
fn an_error_has_its_page() {
    let folder = Folder::new();
    let html = HeaderValue::from_static("text/html");
    let page = ErrorPage::new(html, Bytes::from_static(b"<p>gone"), None);
    let pages = ErrorPages::new(vec![(ErrorStatuses::One(404), page)]);
    for (method, body) in [("GET", &b"<p>gone"[..]), ("HEAD", b"")] {
        let response = run(async {
            let asked = request(head(method, "/none", &[]), None, false);
            let (incoming, front) = pair(asked, 1 << 20);
            let served = folder.served();
            let served = Served { folder: &served, pages: &pages, has_fallback: false };
            let left = folder.server.serve(served, "none", incoming, drop).await;
            assert!(left.is_none());
            front.response().await
        });
        assert_eq!((status(&response), &*response.body), (404, body));
        assert_eq!(response.head.as_ref().unwrap().length, Some(7));
        assert_eq!(field(&response, "content-type"), Some("text/html"));
        assert!(response.complete);
    }
}

/// The route's prefix without its slash redirects as a folder does.
#[test]
fn the_root_of_a_prefix_is_a_folder() {
    let folder = Folder::new();
    folder.write("index.html", "index");
    let of = |path: &str, rest: &str| {
        run(async {
            let asked = request(head("GET", path, &[]), None, false);
            let (incoming, front) = pair(asked, 1 << 20);
            let served = folder.served();
            let served =
                Served { folder: &served, pages: &ErrorPages::default(), has_fallback: false };
            let left = folder.server.serve(served, rest, incoming, drop).await;
            assert!(left.is_none());
            front.response().await
        })
    };
    let response = of("/static", "");
    assert_eq!(field(&response, "location"), Some("/static/"));
    assert_eq!(status(&of("/static/", "/")), 200);
    assert_eq!(status(&of("/static/", "")), 200);
    assert_eq!(status(&of("/static/index.html", "/index.html")), 200);
    assert_eq!(status(&of("/static/index.html", "index.html")), 200);
    assert_eq!(status(&of("/staticindex.html", "index.html")), 404);
}

#[test]
fn other_methods_are_refused() {
    let folder = Folder::new();
    folder.write("a", "a");
    for (method, target, expected) in [
        ("POST", "/a", 405),
        ("DELETE", "/nothing", 405),
        ("OPTIONS", "/a", 204),
        ("OPTIONS", "*", 204),
    ] {
        let response = folder.ask(method, target, &[]);
        assert_eq!(status(&response), expected, "{method}");
        assert_eq!(field(&response, "allow"), Some("GET, HEAD"));
        assert!(response.complete);
    }
}

#[test]
fn links_are_followed_as_the_route_says() {
    let mut folder = Folder::new();
    folder.write("a", "a");
    fs::write(folder.outer.path().join("secret"), "secret").unwrap();
    symlink("a", folder.path("near")).unwrap();
    symlink("../secret", folder.path("far")).unwrap();
    for (symlinks, near, far) in
        [(Symlinks::Never, 403, 403), (Symlinks::Inside, 200, 403), (Symlinks::Follow, 200, 200)]
    {
        folder.files.symlinks = symlinks;
        assert_eq!(status(&folder.get("/a")), 200, "{symlinks:?}");
        assert_eq!(status(&folder.get("/near")), near, "{symlinks:?}");
        assert_eq!(status(&folder.get("/far")), far, "{symlinks:?}");
    }
}

#[test]
fn encodings_are_chosen_by_the_client() {
    let folder = Folder::new();
    folder.write("a.js", "original");
    folder.write("a.js.gz", "gzip");
    folder.write("a.js.br", "brotli");
    folder.write_at("b.js", "original", 5);
    folder.write_at("b.js.gz", "old", 4);
    folder.write_at("b.js.br", "", 5);
    folder.write_at("b.js.zst", "zstd", 5);
    let mut tags = std::collections::HashSet::new();
    for (target, accept, encoding, body) in [
        ("/a.js", "", None, "original"),
        ("/a.js", "gzip, deflate, br, zstd", Some("br"), "brotli"),
        ("/a.js", "gzip, zstd", Some("gzip"), "gzip"),
        ("/a.js", "zstd", None, "original"),
        ("/b.js", "gzip, br", None, "original"),
        ("/b.js", "gzip, br, zstd;q=0.1", Some("zstd"), "zstd"),
    ] {
        let response = folder.ask("GET", target, &[("accept-encoding", accept)]);
        assert_eq!(field(&response, "content-encoding"), encoding, "{accept}");
        assert_eq!(response.body, body.as_bytes(), "{accept}");
        let kind = field(&response, "content-type");
        assert_eq!(kind, Some("text/javascript; charset=utf-8"));
        assert_eq!(field(&response, "vary"), Some("accept-encoding"));
        tags.insert((body, field(&response, "etag").unwrap().to_owned()));
    }
    // The originals of `a.js` and of `b.js` may have the same tag: they are other resources.
    assert!(tags.len() >= 4, "{tags:?}");
    let response = folder.ask("GET", "/a.js", &[("accept-encoding", "zstd, identity;q=0")]);
    assert_eq!(status(&response), 406);
    assert_eq!(field(&response, "vary"), Some("accept-encoding"));
    // A variant is a file too.
    assert_eq!(folder.text("/a.js.gz"), (200, "gzip".to_owned()));
    assert_eq!(field(&folder.get("/a.js.gz"), "content-encoding"), None);
}

#[test]
fn encodings_are_left_alone_where_the_route_has_none() {
    let mut folder = Folder::new();
    folder.files.precompressed = false;
    folder.write("a.js", "original");
    folder.write("a.js.gz", "gzip");
    for accept in ["gzip", "gzip, identity;q=0"] {
        let response = folder.ask("GET", "/a.js", &[("accept-encoding", accept)]);
        assert_eq!((status(&response), &response.body[..]), (200, &b"original"[..]));
        assert_eq!(field(&response, "vary"), None);
    }
}

#[test]
fn a_cache_learns_small_files_and_forgets_the_rest() {
    let folder = Folder::new();
    folder.write("small", bytes(1000));
    folder.write("large", bytes(1001));
    let learnt = |method: &str, target: &str, lines: &[(&'static str, &str)]| {
        let response = folder.ask(method, target, lines);
        (status(&response), folder.learnt.borrow().clone())
    };
    let conditional = [("if-none-match", "*")];
    for (method, lines, expected) in [
        ("GET", &[][..], 200),
        ("HEAD", &[], 200),
        ("GET", &conditional, 304),
        ("GET", &[("range", "bytes=5000-")], 416),
    ] {
        *folder.learnt.borrow_mut() = None;
        let (status, entry) = learnt(method, "/small", lines);
        assert_eq!(status, expected);
        let entry = entry.unwrap();
        assert_eq!(entry.bytes, bytes(1000));
        assert_eq!(entry.metadata.size, 1000);
        for target in ["/large", "/none", "/../x"] {
            assert_eq!(learnt("GET", target, &[]).1, None, "{target}");
        }
    }
}

#[test]
fn memory_and_disk_respond_alike() {
    let folder = Folder::new();
    folder.write("a.txt", bytes(900));
    folder.write("a.txt.gz", bytes(700));
    folder.write("empty", "");
    let get = folder.get("/a.txt");
    let tag = field(&get, "etag").unwrap();
    let date = field(&get, "last-modified").unwrap();
    for target in ["/a.txt", "/empty"] {
        for method in ["GET", "HEAD"] {
            for lines in [
                &[][..],
                &[("accept-encoding", "gzip")],
                &[("range", "bytes=5-7")],
                &[("range", "bytes=5-7,300-400,800-")],
                &[("range", "bytes=5-7,300-400"), ("if-range", tag)],
                &[("range", "bytes=5-7"), ("if-range", date)],
                &[("range", "bytes=900-")],
                &[("if-none-match", tag)],
                &[("if-match", "\"x\"")],
                &[("if-modified-since", date)],
            ] {
                let request = head(method, target, lines);
                let disk = run(folder.response(request.clone()));
                let entry = folder.learnt.borrow().clone().unwrap();
                let memory = fixture::reply(&request, &entry);
                let sent = disk.head.as_ref().unwrap();
                assert_eq!((memory.status, &*memory.headers), (sent.status, &sent.fields));
                let length = memory.body.len();
                assert_eq!(length, sent.length.unwrap_or(0), "{method} {lines:?}");
                let body = match memory.body {
                    Body::Bytes(bytes) if method == "GET" => bytes,
                    _ => Bytes::new(),
                };
                assert_eq!(disk.body, body, "{method} {lines:?}");
                assert!(disk.complete);
            }
        }
    }
}

/// A deployment that replaces the root by another folder or link needs no reload.
#[test]
fn a_root_that_was_exchanged_is_seen() {
    let mut folder = Folder::new();
    for release in ["1", "2"] {
        folder.write(&format!("../release-{release}/a"), release);
    }
    let current = folder.outer.path().join("current");
    symlink("release-1", &current).unwrap();
    folder.files.root.clone_from(&current);
    assert_eq!(folder.text("/a"), (200, "1".to_owned()));
    let next = folder.outer.path().join("next");
    symlink("release-2", &next).unwrap();
    fs::rename(next, &current).unwrap();
    assert_eq!(folder.text("/a"), (200, "2".to_owned()));
    fs::remove_file(&current).unwrap();
    assert_eq!(status(&folder.get("/a")), 500);
}

#[test]
fn what_the_system_says_becomes_a_status() {
    let folder = Folder::new();
    for (errno, expected) in [
        (Errno::NOENT, 404),
        (Errno::NAMETOOLONG, 404),
        (Errno::ACCESS, 403),
        (Errno::LOOP, 403),
        (Errno::XDEV, 403),
        (Errno::MFILE, 503),
        (Errno::NFILE, 503),
        (Errno::IO, 500),
        (Errno::STALE, 500),
    ] {
        let request = head("GET", "/a", &[]);
        let status = match folder.server.missed(&folder.files, &request, &errno.into()) {
            Unserved::NotFound => 404,
            Unserved::Refused(plan) => plan.status,
        };
        assert_eq!(status, expected, "{errno}");
    }
}
