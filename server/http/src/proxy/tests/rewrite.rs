//! Tests paths in place of the request's.

use super::rules::Rules;
use super::*;
use crate::path::{CanonicalPath, PathError};

/// Begins a GET of `/a%20b?c=%64` by a route whose path is rewritten.
fn get(edge: &Edge, path: Result<CanonicalPath, PathError>) -> (TestFront, JoinHandle<()>) {
    let rules = Rules { rewritten: Some(path), ..Rules::default() };
    edge.by(rules, head("GET", "/a%20b?c=%64", &[]))
}

#[test]
fn an_upstream_gets_the_rewritten_path_and_the_client_s_query() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (_front, _task) = get(&edge, CanonicalPath::parse("/v2/a%20b%2B"));
        let request = server.accept().await.head().await;
        let line = request.lines().next();
        assert_eq!(line, Some("GET /v2/a%20b%2B?c=%64 HTTP/1.1"));
    });
}

#[test]
fn a_rewrite_that_yields_no_path_gets_400_without_an_upstream() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task) = get(&edge, Err(PathError::DotSegment));
        assert_eq!(status(&front.response().await), 400);
        task.await.unwrap();
        let counters = edge.counters();
        assert_eq!((counters.refused, counters.opened), (1, 0));
    });
}
