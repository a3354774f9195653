//! Requests that another handler takes because no file is for them.

use super::*;

/// Asks for `target` where the route has a fallback. Returns the response; `None` if the request is left to the fallback, as it came
/// and without a response.
fn ask(folder: &Folder, method: &str, target: &str) -> Option<ReceivedResponse> {
    let rest = target[1..].to_owned();
    run(async {
        let asked = request(head(method, target, &[("x-a", "1")]), None, false);
        let (incoming, front) = pair(asked, 1 << 20);
        let served =
            Served { folder: &folder.served(), pages: &ErrorPages::default(), has_fallback: true };
        let left = folder.server.serve(served, &rest, incoming, drop).await;
        match left {
            None => Some(front.response().await),
            Some(left) => {
                assert_eq!(&*left.request.head.path, target);
                assert!(front.try_next().is_none(), "{target}: no response yet");
                None
            }
        }
    })
}

#[test]
fn what_is_no_file_is_left_to_the_fallback() {
    let folder = Folder::new();
    folder.write("a.txt", "a");
    folder.write("docs/index.html", "docs");
    folder.write("empty/none", "");
    folder.write(".env", "secret");
    for (target, expected) in [
        ("/a.txt", Some(200)),
        ("/docs/", Some(200)),
        ("/docs", Some(301)),
        ("/", None),
        ("/b.txt", None),
        ("/a.txt/", None),
        ("/a.txt/b", None),
        ("/docs/b", None),
        // Folders without an index are no pages.
        ("/empty", None),
        ("/empty/", None),
        // The application may have such names; the file is not served.
        ("/.env", None),
        ("/.git/config", None),
    ] {
        for method in ["GET", "HEAD"] {
            let found = ask(&folder, method, target).map(|response| status(&response));
            assert_eq!(found, expected, "{method} {target}");
        }
    }
}

#[test]
fn a_file_that_may_not_be_read_is_not_left_to_the_fallback() {
    let folder = Folder::new();
    folder.write("a.txt", "a");
    fs::write(folder.outer.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../secret", folder.path("link")).unwrap();
    let found = ask(&folder, "GET", "/link").map(|response| status(&response));
    assert_eq!(found, Some(403));
}

#[test]
fn files_are_tried_in_order_before_the_fallback() {
    let mut folder = Folder::new();
    folder.write("page.html", "page");
    folder.write("pages/index.html", "pages");
    folder.files.candidates = ["{path}", "{path}.html", "{path}/"].map(str::to_owned).to_vec();
    for (target, expected) in
        [("/page", Some("page")), ("/pages/", Some("pages")), ("/other", None)]
    {
        let found = ask(&folder, "GET", target).map(|response| response.body);
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{target}");
    }
}
