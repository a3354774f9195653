//! Tests which connections to an upstream with TLS resume a session.

use super::tls_upstream::{Certified, TlsUpstream, unset};
use super::*;

#[test]
fn pools_that_verify_differently_offer_no_session_of_each_other() {
    run(async {
        let certified = Certified::new("*.app.test", None);
        let upstream = TlsUpstream::new(&certified).await;
        let proxy = |tls: UpstreamTls| with(upstream.proxy(tls), |pool| pool.keepalive = 0);
        let named = |name: &str| {
            proxy(UpstreamTls { tls_name: Some(name.to_owned()), ..certified.trusted() })
        };
        let unverified = proxy(UpstreamTls { tls_verify: false, ..unset() });
        let proxies = [named("a.app.test"), named("b.app.test"), unverified];
        let edge = Edge::new(proxies[0].clone());
        let resumes = async |pool: usize| {
            let route = edge.reload(&proxies).remove(pool);
            let (front, task) = edge.get_by(route);
            let mut conn = upstream.accept().await.unwrap();
            let resumed = conn.0.ssl().session_reused();
            conn.head().await;
            conn.send(OK).await;
            assert_eq!(status(&front.response().await), 200);
            task.await.unwrap();
            resumed
        };
        for pool in 0..proxies.len() {
            assert!(!resumes(pool).await, "pool {pool} has no session yet");
            assert!(resumes(pool).await, "pool {pool} has a session");
        }
    });
}
