//! Identification of requests, from their fields to those of their responses.

use std::sync::Arc;

use sluicegate_config::{Config, Tracing};
use sluicegate_http::exchange::message::ToFront;
use sluicegate_http::identification::Identification;
use sluicegate_http::route::Site;

use super::fixture::Bench;
use super::{Pair, limits, site};

const ID: &str = "x-request-id";

/// Returns a session whose requests are identified as `tracing` says.
fn identified(tracing: &Tracing) -> Bench {
    let mut pair = Pair::new();
    // It is the only owner.
    let site: Site = Arc::into_inner(site()).unwrap();
    pair.context.site = Arc::new(
        site.with_identification(Identification::new(tracing, &Config::embedded().telemetry)),
    );
    Bench::of(pair)
}

fn returning() -> Tracing {
    Tracing { return_request_id: true, ..Config::embedded().tracing }
}

/// Returns the ID that an upstream would get.
fn handed_id(bench: &mut Bench) -> (u64, String) {
    let (exchange, request) = bench.opened();
    let ids = request.head.headers.iter().filter(|(name, _)| name == ID);
    let ids: Vec<_> = ids.map(|(_, id)| id.to_str().unwrap().to_owned()).collect();
    let [id] = &ids[..] else {
        panic!("{ids:?}");
    };
    (exchange, id.clone())
}

#[test]
fn a_handler_gets_an_id_that_the_server_has_made() {
    let mut bench = identified(&Config::embedded().tracing);
    let stream = bench.pair.request("GET", "/app/x", &[(ID, "mine")], true);
    bench.pair.settle();
    let (exchange, id) = handed_id(&mut bench);
    assert_eq!(id.len(), 32);
    bench.head(exchange, None, true);
    bench.pair.settle();
    let seen = &bench.pair.streams[&stream];
    assert_eq!(seen.status(), "200");
    assert!(!seen.headers.contains_key(ID), "{:?}", seen.headers);
}

#[test]
fn every_response_returns_the_id_if_the_configuration_says_so() {
    let mut bench = identified(&returning());
    let large = "x".repeat(1 + usize::try_from(limits().max_request_body).unwrap());
    let mut ids = Vec::new();
    for (method, path, status) in [
        ("GET", "/page", "200"),
        ("HEAD", "/page", "200"),
        ("GET", "/none", "404"),
        ("POST", "/bytes/1", "405"),
        ("GET", "/a%2fb", "400"),
    ] {
        let seen = bench.pair.ask(method, path, &[]);
        assert_eq!(seen.status(), status, "{method} {path}");
        ids.push(seen.headers[ID].clone());
    }
    let stream = bench.pair.upload(&[], large.as_bytes(), false);
    let seen = &bench.pair.streams[&stream];
    assert_eq!(seen.status(), "413");
    ids.push(seen.headers[ID].clone());
    // A response of a handler, and one in place of a handler that has failed.
    for (path, status) in [("/app/x", "200"), ("/app/y", "502")] {
        let stream = bench.pair.request("GET", path, &[], true);
        bench.pair.settle();
        let (exchange, id) = handed_id(&mut bench);
        if status == "200" {
            bench.head(exchange, None, true);
        } else {
            bench.give(exchange, ToFront::Abort(502));
        }
        bench.pair.settle();
        let seen = &bench.pair.streams[&stream];
        assert_eq!((seen.status(), &seen.headers[ID]), (status, &id));
        ids.push(id);
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "each request has its own");
}

#[test]
fn replies_that_need_no_id_get_none() {
    let mut bench = identified(&Config::embedded().tracing);
    let seen = bench.pair.ask("GET", "/page", &[(ID, "mine")]);
    assert!(!seen.headers.contains_key(ID), "{:?}", seen.headers);
}
