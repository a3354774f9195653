//! The example of an application whose files come first.

use super::*;

#[test]
fn application_responds_where_no_file_does() {
    let folder = Folder::new();
    write(
        &folder,
        &[
            ("public/robots.txt", "User-agent: *"),
            ("static/app.123.js", "start()"),
            ("media/cat.html", "<script>"),
        ],
    );
    let replaced = [("/srv/app", "www"), ("unix:/run/app/app.sock", &*upstream("app").to_string())];
    let server = start("application.toml", &folder, &replaced);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let app = "app for www.example.com\n".repeat(100);
        for (path, status, content, (name, value)) in [
            ("/", 200, Some(&*app), ("cache-control", None)),
            ("/robots.txt", 200, Some("User-agent: *"), ("cache-control", None)),
            ("/orders/7", 200, Some(&*app), ("cache-control", None)),
            (
                "/static/app.123.js",
                200,
                Some("start()"),
                ("cache-control", Some("max-age=31536000, immutable")),
            ),
            ("/static/none.js", 404, None, ("cache-control", None)),
            ("/media/cat.html", 200, Some("<script>"), ("content-disposition", Some("attachment"))),
            ("/admin/", 403, None, ("cache-control", None)),
            (
                "/api/v1/orders",
                200,
                Some(&*app),
                ("access-control-allow-origin", Some("https://shop.example.com")),
            ),
        ] {
            let url = format!("https://www.example.com{path}");
            let (found, headers, body) = get(&mut session, &url, "identity").await;
            assert_eq!(found, status, "{path}");
            if let Some(content) = content {
                assert_eq!(body, content.as_bytes(), "{path}");
            }
            assert_eq!(headers["strict-transport-security"], "max-age=31536000");
            let field = headers.get(name).map(|value| value.to_str().unwrap());
            assert_eq!(field, value, "{path}");
        }
        let preflight = http::Request::options("https://www.example.com/api/v1/orders");
        let mut stream = session.begin(preflight.body(()).unwrap()).await;
        stream.finish().await.unwrap();
        let head = stream.recv_response().await.unwrap();
        assert_eq!(head.status(), 204);
        assert_eq!(head.headers()["access-control-max-age"], "86400");
    });
}
