//! Requests for cached files.

use std::path::Path;
use std::time::Instant;

use http::HeaderValue;
use sluicegate_base::observe::memory_budget::MemoryBudget;
use sluicegate_config::{Files, Handler, Route, Symlinks};
use sluicegate_http::exchange::Coding;
use sluicegate_http::exchange::test_front::{head, peer};
use sluicegate_http::gate::{Decision, RequestArrival, RoutedRequest};
use sluicegate_http::identification::Identification;
use sluicegate_http::representation::{Metadata, Representation};
use sluicegate_http::route::FileMiss;
use sluicegate_quic::application::Shared as _;

use super::*;

fn files(path: &str, root: &Path) -> Route {
    let files = Files {
        root: root.to_owned(),
        index: Vec::new(),
        precompressed: false,
        symlinks: Symlinks::Never,
        candidates: vec!["{path}".to_owned()],
        mime_types: Vec::new(),
    };
    Route::new(path, Handler::Files(files))
}

fn entry() -> Representation {
    let metadata = Metadata {
        size: 1000,
        etag: HeaderValue::from_static("\"x\""),
        modified: None,
        content_type: HeaderValue::from_static("text/plain"),
        encoding: Coding::Identity,
        varies: false,
        compressed: false,
    };
    let bytes = vec![7; 1000].into();
    Representation::new(metadata, bytes)
}

/// Does what the handler of the request does once it has read the file.
fn fill(routed: &mut RoutedRequest, path: &str, now: Instant) {
    let request = routed.request(head("GET", path, &[]), peer(false), None, false);
    let miss = request.handler.downcast::<FileMiss>().unwrap();
    miss.vacancy.fill(Some(entry()), now);
}

/// Returns the request for a handler, or `None` if the file is in memory.
fn get(context: &mut SessionContext, path: &str) -> Option<RoutedRequest> {
    get_ranges(context, path, "bytes=0-")
}

fn get_ranges(context: &mut SessionContext, path: &str, ranges: &str) -> Option<RoutedRequest> {
    match decide(context, path, ranges) {
        Decision::Handle(routed) => Some(routed),
        Decision::Discard(reply, _) => {
            assert_eq!((reply.status, reply.body.len()), (206, 1000));
            None
        }
        Decision::Refuse(refusal) => panic!("{refusal:?}"),
    }
}

fn decide(context: &mut SessionContext, path: &str, ranges: &str) -> Decision {
    context.gate().decide(&RequestArrival {
        head: &head("GET", path, &[("range", ranges)]),
        path_refused: false,
        peer: &peer(false),
        content_length: None,
        expects_status: false,
        has_body: false,
        running: 0,
    })
}

#[test]
fn reload_keeps_the_cached_files_of_folders_that_it_did_not_change() {
    let [root, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (root, other) = (root.path(), other.path());
    let routes = [files("/a/", root), files("/b/", other)];
    let site = Arc::new(Site::compile(&routes, &limits()).unwrap());
    let h3 = crate::h3::config(&limits()).unwrap();
    let mut context = SessionContext::new(Arc::clone(&site), h3, clock::now());
    for path in ["/a/x", "/b/x"] {
        let mut routed = get(&mut context, path).unwrap();
        fill(&mut routed, path, context.now);
        assert!(get(&mut context, path).is_none());
    }
    let held = context.cache.store().held();

    // The folder keeps its files where its route has another path, too.
    let routes = [files("/b/", root), files("/c/", other)];
    let site = Arc::new(site.recompile(&routes, &limits(), Identification::off()).unwrap());
    context.adopt(Arc::clone(&site));
    assert!(get(&mut context, "/b/x").is_none() && get(&mut context, "/c/x").is_none());
    assert_eq!(context.cache.store().held(), held);

    let last = site.recompile(&[files("/a/", other)], &limits(), Identification::off()).unwrap();
    last.drop_files_of(&site);
    context.adopt(Arc::new(last));
    assert_eq!(context.cache.store().held(), held / 2);
    assert!(get(&mut context, "/a/x").is_none());

    let none = Limits { file_cache: 0, ..limits() };
    let site =
        context.site.recompile(&[files("/a/", other)], &none, Identification::off()).unwrap();
    context.adopt(Arc::new(site));
    assert!(get(&mut context, "/a/x").is_some());
}

/// One body would be a copy of the file for each request, in no account of memory.
#[test]
fn several_ranges_of_a_cached_file_go_to_a_handler() {
    let root = tempfile::tempdir().unwrap();
    let site = Site::compile(&[files("/", root.path())], &limits()).unwrap();
    let h3 = crate::h3::config(&limits()).unwrap();
    let mut context = SessionContext::new(Arc::new(site), h3, clock::now());
    let mut routed = get(&mut context, "/x").unwrap();
    fill(&mut routed, "/x", context.now);
    assert!(get_ranges(&mut context, "/x", "bytes=0-400,600-").is_some());
    assert!(get_ranges(&mut context, "/x", "bytes=0-400,401-").is_none());
    assert_eq!(context.counters.gate.from_memory, 1);
}

#[test]
fn while_memory_is_short_no_file_stays_in_it_and_none_is_read() {
    let root = tempfile::tempdir().unwrap();
    let site = Site::compile(&[files("/", root.path())], &limits()).unwrap();
    let h3 = crate::h3::config(&limits()).unwrap();
    let mut context = SessionContext::new(Arc::new(site), h3, clock::now());
    context.memory = Arc::new(MemoryBudget::new(1000));
    let mut routed = get(&mut context, "/x").unwrap();
    fill(&mut routed, "/x", context.now);
    assert!(context.cache.store().held() > 0);
    context.memory.measured(1000);
    context.begin_service();
    assert_eq!(context.cache.store().held(), 0);
    let Decision::Refuse(refusal) = decide(&mut context, "/x", "") else {
        panic!("a handler would need memory")
    };
    assert_eq!(refusal.reply.status, 503);
    assert_eq!(refusal.reply.headers[1].0, "retry-after");
    assert_eq!(context.counters.gate.memory, 1);
    context.memory.measured(900);
    context.begin_service();
    assert!(get(&mut context, "/x").is_some());
}
