//! Tests upstreams with TLS.

use std::path::PathBuf;

use boring::ssl::{NameType, SslVerifyMode, SslVersion};

use super::tls_upstream::{Certified, TlsUpstream, proxy_with, unset};
use super::*;

#[test]
fn requests_pass_over_one_verified_connection() {
    run(async {
        let certified = Certified::new("app.test", None);
        let upstream = TlsUpstream::new(&certified).await;
        let edge =
            Edge::new(upstream.proxy(UpstreamTls {
                tls_name: Some("app.test".to_owned()),
                ..certified.trusted()
            }));
        let begun = edge.get("/a");
        let mut conn = upstream.accept().await.unwrap();
        let ssl = conn.0.ssl();
        assert_eq!(ssl.servername(NameType::HOST_NAME), Some("app.test"));
        assert_eq!(ssl.selected_alpn_protocol(), Some(&b"http/1.1"[..]));
        assert!(conn.head().await.starts_with("GET /a HTTP/1.1\r\n"));
        conn.send(OK).await;
        assert_eq!(begun.0.response().await.body, b"ok");
        begun.1.await.unwrap();
        let (front, task) = edge.post(Some(4));
        front.data(b"data");
        front.end(None);
        assert!(conn.head().await.starts_with("POST / "));
        let mut body = [0; 4];
        conn.0.read_exact(&mut body).await.unwrap();
        conn.send(OK).await;
        assert!(front.response().await.complete);
        task.await.unwrap();
        let counters = edge.counters();
        assert_eq!((counters.opened, counters.reused), (1, 1));
    });
}

/// Checks that a request is 502 for `failure`, and that the upstream completes no handshake.
async fn assert_distrusted(certified: &Certified, tls: UpstreamTls, failure: Failure) {
    use sluicegate_base::observe::metrics::Label as _;

    let upstream = TlsUpstream::new(certified).await;
    let edge = Edge::new(Proxy { retries: 0, ..upstream.proxy(tls) });
    let (front, task) = edge.get("/");
    // In TLS 1.3 the alert arrives after the server's part of the handshake.
    if let Ok(mut conn) = upstream.accept().await {
        assert!(conn.0.read_u8().await.is_err(), "nothing is sent");
    }
    let received = front.response().await;
    task.await.unwrap();
    assert_eq!(status(&received), 502);
    let cause = field(&received, "proxy-status");
    assert_eq!(cause, Some("sluicegate; error=tls_certificate_error"));
    assert_eq!(received.report.cause, Some(failure.name()));
    assert_eq!(edge.failures(failure), 1, "{:?}", edge.counters());
    edge.assert_nothing_open();
}

#[test]
fn an_upstream_that_cannot_be_trusted_gets_no_request() {
    run(async {
        let certified = Certified::new("127.0.0.1", None);
        let other = Certified::new("127.0.0.1", None);
        assert_distrusted(&certified, other.trusted(), Failure::CertificateIssuer).await;
        let of_host = unset();
        assert_distrusted(&certified, of_host, Failure::CertificateIssuer).await;

        let named =
            |name: &str| UpstreamTls { tls_name: Some(name.to_owned()), ..certified.trusted() };
        for name in ["app.test", "127.0.0.2"] {
            assert_distrusted(&certified, named(name), Failure::CertificateName).await;
        }
        let elsewhere = Certified::new("app.test", None);
        assert_distrusted(&elsewhere, elsewhere.trusted(), Failure::CertificateName).await;

        let expired = Certified::new("127.0.0.1", Some(2));
        assert_distrusted(&expired, expired.trusted(), Failure::CertificateExpired).await;
    });
}

#[test]
fn a_certificate_that_is_not_verified_may_be_any() {
    run(async {
        let expired = Certified::new("app.test", Some(2));
        let upstream = TlsUpstream::new(&expired).await;
        let edge = Edge::new(upstream.proxy(UpstreamTls { tls_verify: false, ..unset() }));
        let (front, _task) = edge.get("/");
        let mut conn = upstream.accept().await.unwrap();
        conn.head().await;
        conn.send(OK).await;
        assert_eq!(front.response().await.body, b"ok");
    });
}

#[test]
fn a_handshake_that_fails_is_502_and_the_request_goes_elsewhere_with_its_body() {
    run(async {
        let certified = Certified::new("127.0.0.1", None);
        let upstream = TlsUpstream::new(&certified).await;
        for answer in [Some(&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]), Some(b""), None] {
            let broken = Server::new().await;
            let address = UpstreamAddress::Tls(broken.address().to_string());
            let both = vec![address, upstream.address()];
            let edge = Edge::new(proxy_with(both, certified.trusted()));
            let (front, task) = edge.post(Some(4));
            front.data(b"data");
            front.end(None);
            let mut conn = broken.accept().await;
            conn.take(5).await;
            match answer {
                Some(answer) => {
                    conn.send(answer).await;
                    drop(conn);
                }
                None => conn.reset(),
            }
            let mut conn = upstream.accept().await.unwrap();
            assert!(conn.head().await.starts_with("POST / "));
            let mut body = [0; 4];
            conn.0.read_exact(&mut body).await.unwrap();
            assert_eq!(&body, b"data");
            conn.send(OK).await;
            assert_eq!(status(&front.response().await), 200);
            task.await.unwrap();
            let counters = edge.counters();
            assert_eq!(counters.failures[Failure::TlsHandshake], 1, "{counters:?}");
            assert_eq!(counters.retries, 1);
        }
    });
}

#[test]
fn a_certificate_that_is_not_verified_is_no_cause_of_a_failed_handshake() {
    run(async {
        let certified = Certified::new("app.test", Some(2));
        let mut acceptor = certified.acceptor();
        // In TLS 1.2 the upstream refuses a client without a certificate within the handshake.
        acceptor.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
        acceptor.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
        let upstream = TlsUpstream::with(acceptor).await;
        let edge = Edge::new(Proxy {
            retries: 0,
            ..upstream.proxy(UpstreamTls { tls_verify: false, ..unset() })
        });
        let (front, task) = edge.get("/");
        assert!(upstream.accept().await.is_err());
        assert_eq!(status(&front.response().await), 502);
        task.await.unwrap();
        let counters = edge.counters();
        assert_eq!(counters.failures[Failure::TlsHandshake], 1, "{counters:?}");
    });
}

#[test]
fn a_handshake_that_stands_still_is_504() {
    run(async {
        let certified = Certified::new("127.0.0.1", None);
        let silent = Server::new().await;
        let address = UpstreamAddress::Tls(silent.address().to_string());
        let edge = Edge::new(Proxy {
            connect_timeout: Duration::from_millis(50),
            retries: 0,
            ..proxy_with(vec![address], certified.trusted())
        });
        let (front, task) = edge.get("/");
        let mut conn = silent.accept().await;
        assert_eq!(status(&front.response().await), 504);
        task.await.unwrap();
        conn.closed().await;
        assert_eq!(edge.failures(Failure::ConnectTimeout), 1);
        edge.assert_nothing_open();
    });
}

/// Without a length, the body ends with its connection; only close_notify says that it is whole.
#[test]
fn a_body_without_close_notify_does_not_look_whole() {
    run(async {
        let certified = Certified::new("127.0.0.1", None);
        let upstream = TlsUpstream::new(&certified).await;
        for whole in [true, false] {
            let edge = Edge::new(upstream.proxy(certified.trusted()));
            let (front, task) = edge.get("/");
            let mut conn = upstream.accept().await.unwrap();
            conn.head().await;
            conn.send(b"HTTP/1.1 200 OK\r\n\r\nsome").await;
            if whole {
                conn.0.shutdown().await.unwrap();
            }
            drop(conn);
            let received = front.response().await;
            task.await.unwrap();
            assert_eq!((status(&received), received.complete), (200, whole));
            assert_eq!(edge.failures(Failure::BodyCut), u64::from(!whole));
            edge.assert_nothing_open();
        }
    });
}

#[test]
fn an_early_response_arrives_though_the_upstream_reads_no_further() {
    run(async {
        let certified = Certified::new("127.0.0.1", None);
        let upstream = TlsUpstream::new(&certified).await;
        let edge = Edge::new(upstream.proxy(certified.trusted()));
        let (front, task) = edge.post(None);
        let mut conn = upstream.accept().await.unwrap();
        conn.head().await;
        conn.send(b"HTTP/1.1 413 Large\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno").await;
        conn.0.shutdown().await.unwrap();
        drop(conn);
        front.data(&[0; 100_000]);
        let received = front.response().await;
        task.await.unwrap();
        assert_eq!((status(&received), received.complete), (413, true));
    });
}

#[test]
fn later_connections_resume_a_session() {
    run(async {
        let certified = Certified::new("127.0.0.1", None);
        let upstream = TlsUpstream::new(&certified).await;
        let proxy = upstream.proxy(certified.trusted());
        let edge = Edge::new(with(proxy, |pool| pool.keepalive = 0));
        let mut resumed = Vec::new();
        for _ in 0..3 {
            let (front, task) = edge.get("/");
            let mut conn = upstream.accept().await.unwrap();
            resumed.push(conn.0.ssl().session_reused());
            conn.head().await;
            conn.send(OK).await;
            front.response().await;
            task.await.unwrap();
        }
        assert_eq!(resumed, [false, true, true]);
    });
}

#[test]
fn an_upstream_that_asks_for_a_certificate_gets_the_one_of_the_configuration() {
    run(async {
        let certified = Certified::new("127.0.0.1", None);
        let client = Certified::new("edge.test", None);
        let mut acceptor = certified.acceptor();
        acceptor.set_verify_callback(
            SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT,
            |_, _| true,
        );
        let upstream = TlsUpstream::with(acceptor).await;
        let edge = Edge::new(upstream.proxy(UpstreamTls {
            tls_certificate: client.file("cert.pem"),
            tls_key: client.file("key.pem"),
            ..certified.trusted()
        }));
        let (front, _task) = edge.get("/");
        let mut conn = upstream.accept().await.unwrap();
        let shown = conn.0.ssl().peer_certificate().unwrap();
        assert_eq!(shown.to_der().unwrap(), client.certificate.to_der().unwrap());
        conn.head().await;
        conn.send(OK).await;
        assert_eq!(front.response().await.body, b"ok");

        let without = Edge::new(Proxy { retries: 0, ..upstream.proxy(certified.trusted()) });
        let (front, _task) = without.get("/");
        assert!(upstream.accept().await.is_err());
        assert_eq!(status(&front.response().await), 502);
    });
}

#[test]
fn files_that_cannot_be_used_are_refused_with_their_key() {
    let certified = Certified::new("app.test", None);
    let other = Certified::new("app.test", None);
    let error = |tls: UpstreamTls| {
        let proxy = proxy_with(vec![UpstreamAddress::Tls("app:443".to_owned())], tls);
        let site = SitePools::default();
        let compiled = PoolCompiler::new(&site).compile(&proxy);
        compiled.map(|_| ()).unwrap_err()
    };
    let pair = |certificate: Option<PathBuf>, key: Option<PathBuf>| UpstreamTls {
        tls_certificate: certificate,
        tls_key: key,
        ..certified.trusted()
    };
    let ca = |name: &str| UpstreamTls { tls_ca: certified.file(name), ..certified.trusted() };
    for (tls, key, words) in [
        (ca("none.pem"), "tls_ca", "none.pem: No such file"),
        (ca("key.pem"), "tls_ca", "BEGIN CERTIFICATE"),
        (
            pair(certified.file("cert.pem"), other.file("key.pem")),
            "tls_key",
            "does not belong to tls_certificate",
        ),
        (pair(certified.file("cert.pem"), other.file("cert.pem")), "tls_key", "BEGIN PRIVATE KEY"),
        (
            pair(certified.file("key.pem"), certified.file("key.pem")),
            "tls_certificate",
            "BEGIN CERTIFICATE",
        ),
    ] {
        let error = error(tls);
        assert_eq!(error.key(), key);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_reload_keeps_the_pool_unless_its_files_have_changed() {
    let certified = Certified::new("app.test", None);
    let address = UpstreamAddress::Tls("app:443".to_owned());
    let proxy = proxy_with(vec![address], certified.trusted());
    let compile = |previous: &SitePools| {
        let mut compiler = PoolCompiler::new(previous);
        let pool = compiler.compile(&proxy).unwrap().pool;
        (compiler.finish(), pool)
    };
    let (site, first) = compile(&SitePools::default());
    let (site, same) = compile(&site);
    assert!(Arc::ptr_eq(&first, &same));
    let other = Certified::new("app.test", None).certificate;
    std::fs::write(certified.folder.path().join("cert.pem"), other.to_pem().unwrap()).unwrap();
    let (_, changed) = compile(&site);
    assert!(!Arc::ptr_eq(&first, &changed));
}

#[test]
fn routes_of_a_pool_share_it_though_its_files_change_while_they_are_compiled() {
    let certified = Certified::new("app.test", None);
    let address = UpstreamAddress::Tls("app:443".to_owned());
    let proxy = proxy_with(vec![address], certified.trusted());
    let site = SitePools::default();
    let mut compiler = PoolCompiler::new(&site);
    let first = compiler.compile(&proxy).unwrap().pool;
    let other = Certified::new("app.test", None).certificate;
    std::fs::write(certified.folder.path().join("cert.pem"), other.to_pem().unwrap()).unwrap();
    let next = compiler.compile(&proxy).unwrap().pool;
    assert!(Arc::ptr_eq(&first, &next));
}
