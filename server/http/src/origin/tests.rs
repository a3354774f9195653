//! Tests handlers behind a password, and threads for blocking work.

use super::*;
use crate::auth::Credentials;
use crate::exchange::Opaque;
use crate::exchange::accounts::Accounts;
use crate::exchange::test_front::{self, ReceivedResponse, TestFront, head, pair, peer, request};
use crate::files::Cache;
use crate::gate::{Gate, GateCounters, RequestArrival};
use crate::route::Route;

/// Line of a file of users: `ada` with the password `secret`.
const ADA: &str = "ada:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

/// Asks the only route of a site, which has a password, for `path`.
fn ask(handler: &str, (method, path): (&str, &str), password: &str) -> ReceivedResponse {
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
    given.handler = Opaque::new(Arc::new(UnverifiedRequest { route, credentials }));
    respond_to(pair(given, 1 << 20), Arc::default())
}

/// Returns the response of the request's handler.
fn respond_to(
    (incoming, front): (Incoming, TestFront),
    memory: Arc<MemoryBudget>,
) -> ReceivedResponse {
    let compressors = Rc::<Compressors>::default();
    let handlers = Rc::new(Handlers {
        files: FileServer::new(OPEN_FILES, 1000, Rc::clone(&compressors)),
        pools: Pools::default(),
        udp: UdpTunnels::default(),
        body_buffers: BodyBuffers::default(),
        compressors,
        passwords: Verifier::new(Arc::new(PasswordChecks::new(1).unwrap())),
        memory,
    });
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async move {
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

/// Asks a front with files in memory for `/a`. Returns whether they had it, or a handler responded.
fn is_in_memory(site: &Site, cache: &mut Cache, memory: &Arc<MemoryBudget>) -> bool {
    let mut gate = Gate {
        site,
        cache,
        memory_is_short: false,
        counters: &mut GateCounters::default(),
        now: clock::now(),
    };
    let arrival = RequestArrival {
        head: &head("GET", "/a", &[]),
        path_refused: false,
        peer: &peer(false),
        content_length: None,
        expects_status: false,
        has_body: false,
        running: 0,
    };
    let accounts = Accounts::with_limit(1 << 16, 1 << 20, 10);
    match test_front::ask(&mut gate, &arrival, 0, accounts) {
        Ok(exchange) => {
            let response = respond_to(exchange, Arc::clone(memory));
            assert_eq!(response.head.unwrap().status, 200);
            false
        }
        Err(reply) => {
            assert_eq!(reply.status, 200);
            true
        }
    }
}

#[test]
fn a_file_that_was_read_for_one_front_is_in_memory_for_all() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "text").unwrap();
    let limits = sluicegate_config::Config::embedded().limits;
    let root = folder.path().display();
    let site = Site::of_routes(
        &format!("[[route]]\npath = \"/\"\nfiles = {{ root = '{root}' }}\n"),
        &limits,
    );
    let [mut one, mut other] = [(); 2].map(|()| Cache::new(site.file_store()));
    let memory = Arc::new(MemoryBudget::new(1000));
    memory.measured(1000);
    assert!(!is_in_memory(&site, &mut one, &memory));
    assert!(!is_in_memory(&site, &mut one, &memory), "none is kept while memory is short");
    memory.measured(0);
    assert!(!is_in_memory(&site, &mut one, &memory));
    assert!(is_in_memory(&site, &mut other, &memory));
    assert!(is_in_memory(&site, &mut one, &memory));
}
