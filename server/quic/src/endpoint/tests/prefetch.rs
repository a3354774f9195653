//! Service with so many connections that they are prefetched.

use super::*;
use crate::testing::Bench;

#[test]
fn requests_on_prefetched_connections_are_served() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let mut clients = Vec::new();
    for host in 0..=PREFETCH_ABOVE {
        let client = bench.connect(&format!("10.0.{}.{}:5000", host / 256, host % 256));
        clients.push(bench.with_session(client));
    }
    for (client, h3) in &mut clients {
        client.request(h3, "GET", "/bytes/1");
        client.speak(&mut bench.endpoint, bench.now);
        bench.said();
    }
    assert_eq!(bench.endpoint.len(), clients.len());
    let served = bench.endpoint.shared().counters.served;
    assert_eq!(served, clients.len() as u64);
}
