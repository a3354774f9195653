//! Tests handlers behind a password, and threads for blocking work.

use super::*;
use crate::auth::Credentials;
use crate::exchange::test_front::{Received, head, pair, request};
use crate::route::Route;

/// Line of a file of users: `ada` with the password `secret`.
const ADA: &str = "ada:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

/// Asks the only route of a site, which has a password, for `path`.
fn ask(handler: &str, (method, path): (&str, &str), password: &str) -> Received {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("users"), ADA).unwrap();
    std::fs::write(folder.path().join("401.html"), "<p>who?").unwrap();
    let root = folder.path().display();
    let text = format!(
        "[[route]]\npath = \"/\"\nbasic_auth = {{ users_file = '{root}/users' }}\n\
         error_pages = {{ 401 = '{root}/401.html' }}\n{}\n",
        handler.replace("ROOT", &root.to_string())
    );
    let limits = sluicegate_config::Config::embedded().limits;
    let site = Site::of_routes(&text, &limits);
    let head = head(method, path, &[]);
    let route: Arc<Route> = Arc::clone(site.find(&head).unwrap());
    let credentials = Credentials { user: b"ada".to_vec(), password: password.into() };
    let mut given = request(head, None, false);
    given.handler = Opaque::new(Arc::new(Claim { route, credentials }));
    let compressors = Rc::<Compressors>::default();
    let handlers = Rc::new(Handlers {
        files: FileServer::new(OPEN_FILES, 0, Rc::clone(&compressors)),
        pools: Pools::default(),
        udp: UdpTunnels::default(),
        body_buffers: BodyBuffers::default(),
        compressors,
        passwords: Verifier::new(Arc::new(PasswordChecks::new(1).unwrap())),
    });
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async move {
        let (incoming, front) = pair(given, 1 << 20);
        spawn_local(handlers.handle(incoming));
        front.response().await
    })
}

#[test]
fn every_handler_responds_only_to_a_valid_password() {
    for (handler, path, status, body) in [
        ("fixed = { body = \"hello\" }", "/", 200, "hello"),
        ("redirect = { location = \"/there\" }", "/", 308, ""),
        ("generate = {}", "/8", 200, "\0\0\0\0\0\0\0\0"),
        ("files = { root = 'ROOT' }", "/401.html", 200, "<p>who?"),
        ("files = { root = 'ROOT' }", "/none", 404, "404 not found\n"),
        ("files = { root = 'ROOT' }\nfixed = { body = \"app\" }", "/none", 200, "app"),
        ("files = { root = 'ROOT' }\nfixed = { body = \"app\" }", "/401.html", 200, "<p>who?"),
        ("files = { root = 'ROOT' }\nredirect = \"/there\"", "/none", 308, ""),
    ] {
        let valid = ask(handler, ("GET", path), "secret");
        assert_eq!(valid.head.unwrap().status, status, "{handler}");
        assert_eq!(String::from_utf8(valid.body).unwrap(), body, "{handler}");
        assert!(valid.complete);
        let invalid = ask(handler, ("GET", path), "Secret");
        let head = invalid.head.unwrap();
        assert_eq!(head.status, 401, "{handler}");
        let challenged = head.fields.iter().any(|(name, _)| name == "www-authenticate");
        assert!(challenged, "{handler}");
        assert_eq!(invalid.body, b"<p>who?", "the route's page");
    }
}

#[test]
fn generated_body_is_whole_and_head_has_its_length_alone() {
    let got = ask("generate = {}", ("GET", "/100000"), "secret");
    assert_eq!((got.body.len(), got.complete), (100_000, true));
    let head = ask("generate = {}", ("HEAD", "/100000"), "secret");
    assert_eq!((head.head.unwrap().length, head.body.len()), (Some(100_000), 0));
}

#[test]
fn threads_for_blocking_work_are_not_pinned_with_the_origin_thread() {
    let all = affinity::allowed_cores();
    let thread = std::thread::spawn(|| {
        let runtime = runtime("o").unwrap();
        let last = *affinity::allowed_cores().last().unwrap();
        affinity::pin(last).unwrap();
        runtime.block_on(async {
            let found = tokio::task::spawn_blocking(affinity::allowed_cores);
            (found.await.unwrap(), affinity::allowed_cores(), last)
        })
    });
    let (blocking, own, last) = thread.join().unwrap();
    assert_eq!((blocking, own), (all, vec![last]));
}
