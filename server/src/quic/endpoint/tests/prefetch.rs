//! Service with so many connections that they are prefetched.

use super::fixture::Bench;
use super::service::{request, with_routes, with_session};
use super::*;

#[test]
fn requests_on_prefetched_connections_are_served() {
    let route = "[[route]]\npath = \"/\"\nfixed = { content_type = \"text/html\", body = \"x\" }\n";
    let mut bench = Bench::new(with_routes(route));
    let mut clients = Vec::new();
    for host in 0..=PREFETCH_ABOVE {
        let client = bench.connect(&format!("10.0.{}.{}:5000", host / 256, host % 256));
        clients.push(with_session(&mut bench, client));
    }
    for (client, h3) in &mut clients {
        request(client, h3, "GET", "/");
        client.speak(&mut bench.endpoint, bench.now);
        bench.said();
    }
    assert_eq!(bench.endpoint.len(), clients.len());
    let served = bench.endpoint.shared().counters.responses.of(200);
    assert_eq!(served, clients.len() as u64);
}
