//! An upstream with TLS.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use boring::ssl::{SslAcceptor, SslMethod, SslStream};
use sluicegate_base::self_signed;

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};

on_auto!(requests_reach_a_verified_upstream_and_no_other);

/// Starts an upstream whose certificate, for `app.test`, is written to `upstream.pem`.
fn start(folder: &Folder) -> SocketAddr {
    let key = self_signed::key().unwrap();
    let now = sluicegate_base::clock::unix();
    let certificate = self_signed::certificate(&key, &["app.test"], &[1], now).unwrap();
    std::fs::write(folder.path("upstream.pem"), certificate.to_pem().unwrap()).unwrap();
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
    acceptor.set_certificate(&certificate).unwrap();
    acceptor.set_private_key(&key).unwrap();
    let acceptor = Arc::new(acceptor.build());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let acceptor = Arc::clone(&acceptor);
            // A client that does not trust the certificate ends the handshake.
            std::thread::spawn(move || acceptor.accept(stream).ok().map(respond));
        }
    });
    address
}

/// Responds to each request with its path, until the connection is closed.
fn respond(stream: SslStream<TcpStream>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        reader.read_line(&mut first).ok().filter(|count| *count > 0)?;
        let path = first.split(' ').nth(1)?.to_owned();
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        }
        let length = path.len();
        let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{path}");
        reader.get_mut().write_all(response.as_bytes()).ok()?;
    }
}

fn requests_reach_a_verified_upstream_and_no_other(backend: &str) {
    let folder = Folder::new();
    let upstream = start(&folder);
    let setup = |ca: &str| {
        let pool = |name: &str, keys: &str| {
            format!(
                "[[route]]\npath = \"/{name}/\"\nproxy.pool = \"{name}\"\n\
                 [[pool]]\nname = \"{name}\"\nupstreams = \"https://{upstream}\"\n{keys}\n"
            )
        };
        let ca = format!("tls_ca = \"{ca}\"");
        Setup::new(backend)
            .with(ADMIN)
            .listener("one", "127.0.0.1:0", "cubic")
            .with(&pool("named", &format!("{ca}\ntls_name = \"app.test\"")))
            .with(&pool("unnamed", &ca))
            .with(&pool("trusting", "tls_verify = false"))
    };
    let mut server = Server::start(&setup("upstream.pem"), &folder);
    let admin = address(&mut server);
    assert!(server.process.has_said("certificates of upstreams are not verified"));
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        for path in ["/named/one", "/named/two", "/trusting/one"] {
            assert_eq!(session.get(path).await.text().await, path);
        }
        let response = session.get("/unnamed/").await;
        assert_eq!(response.head.status(), 502);
        let cause = &response.head.headers()["proxy-status"];
        assert_eq!(cause, "sluicegate; error=tls_certificate_error");
        server.process.line_with(&["WARN", "its certificate is for other names"]);

        let refused = server.reload(&setup("none.pem"), &folder, "configuration refused");
        assert!(refused.contains("cannot read tls_ca"), "{refused}");
        assert_eq!(session.get("/named/three").await.text().await, "/named/three");
        // Another authority under the same name: the old connections serve nobody any more.
        let key = self_signed::key().unwrap();
        let now = sluicegate_base::clock::unix();
        let other = self_signed::certificate(&key, &["app.test"], &[1], now).unwrap();
        std::fs::write(folder.path("upstream.pem"), other.to_pem().unwrap()).unwrap();
        server.reload(&setup("upstream.pem"), &folder, "configuration reloaded");
        assert_eq!(session.get("/named/four").await.head.status(), 502);
        let found = metrics(admin);
        let failures = |reason: &str| {
            found[&format!("sluicegate_proxy_failures_total{{reason=\"{reason}\"}}")]
        };
        assert!(failures("certificate_name") >= 1.0 && failures("certificate_issuer") >= 1.0);
        assert_eq!(found["sluicegate_proxy_connections_opened_total"], 2.0);
    });
}
